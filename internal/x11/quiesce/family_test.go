package quiesce

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestHelpers finds the processes of one program, and waits until all are idle.
func TestHelpers(t *testing.T) {
	t.Parallel()
	d := &Display{Done: make(chan struct{})}
	cmd := exec.Command("sh", "-c", `sh -c 'echo; while kill -0 $PPID; do :; done' & cat; :`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	var family []int
	until(t, "two shells, without cat", func() bool { // which is a shell at first
		family = helpers(cmd.Process.Pid)
		return len(family) == 2 && family[0] == cmd.Process.Pid
	})
	limited, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := d.waitFamily(limited, family, familyQuiet); err == nil {
		t.Error("a process that is busy counts as quiet")
	}
	if !parentOf(family[0]).runs {
		t.Error("a child that runs does not count as running")
	}
	if err := syscall.Kill(family[1], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "stopped shell", func() bool { // of two pending signals it would get SIGTERM first
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", family[1]))
		_, state := parseStatus(status)
		return err == nil && state == 'T'
	})
	if err := syscall.Kill(family[1], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !parentOf(family[0]).ends {
		t.Error("a child with a pending signal does not count as ending")
	}
	if err := syscall.Kill(family[1], syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := d.waitFamily(t.Context(), family, familyQuiet); err != nil {
		t.Errorf("quiet processes: %v", err)
	}
	if p := parentOf(family[0]); p.runs || p.ends || p.terminal {
		t.Errorf("a child that sleeps, or none, counts as acting: %+v", p)
	}
}

// until polls for a condition that has no event.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within a minute", what)
		}
	}
}
