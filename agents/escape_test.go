package agents_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/supervise"
)

// escaping is an agent that starts a process which leaves its tree, its session and its
// environment, and which SIGTERM does not end. It answers with the number of the process.
const escaping = `(setsid env -i sh -c 'trap "" TERM INT HUP; echo "[$$]"; exec >/dev/null 2>&1 </dev/null; while :; do sleep 1000 & wait; done' &)
exec cat`

// needCgroups skips a test on machines without control groups.
func needCgroups(t *testing.T) {
	t.Helper()
	own := supervise.OwnCgroup()
	dir := filepath.Join(own, "probe-"+strings.ToLower(rand.Text()))
	if own == "" || os.Mkdir(dir, 0o755) != nil {
		t.Skip("no control groups of version 2 can be made here")
	}
	_, err := os.Stat(filepath.Join(dir, "cgroup.kill"))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("the kernel does not end control groups")
	}
}

// groupOf returns the folder of the group of a host's agent that a process is in. The process
// ends with the test.
func groupOf(t *testing.T, pid int) string {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() && alive(pid) {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // it leads its session
		}
	})
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		host := filepath.Base(filepath.Dir(path))
		if ok && strings.HasPrefix(host, "deskhand-") {
			return filepath.Join(supervise.OwnCgroup(), host, filepath.Base(path))
		}
	}
	t.Fatalf("process %d is in no group of ours:\n%s", pid, b)
	return ""
}

// isGone returns an error if a process runs, or if a path exists.
func isGone(t *testing.T, pid int, paths ...string) {
	t.Helper()
	if alive(pid) {
		t.Errorf("process %d runs", pid)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
}

// escaped starts an escaping agent and returns the process that has escaped.
func escaped(t *testing.T, h *agents.Host, server string) (pid int, group string) {
	t.Helper()
	post(t, h, server, `{"method":"hello"}`)
	pid = pidsOf(t, h, server)[0]
	return pid, groupOf(t, pid)
}

// A process that only its control group identifies ends with its agent. Processes of other
// agents do not.
func TestEscape(t *testing.T) {
	t.Parallel()
	needCgroups(t)
	h := host(t, agents.Config{Launch: shell(escaping)})
	stays, _ := escaped(t, h, "stays")
	pid, group := escaped(t, h, "deleted")
	for _, dir := range []string{group, filepath.Dir(group)} {
		// flock(2) needs a descriptor of the directory. Programs read the limits in it.
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("%s: %v, %v; want that other users can enter it and not open it", dir, info.Mode(), err)
		}
	}
	if err := h.Delete(within(t), "deleted"); err != nil {
		t.Fatal(err)
	}
	isGone(t, pid, group)
	if !alive(stays) {
		t.Error("what another agent started was ended")
	}
}

// The processes that an agent leaves end after its exit as well.
func TestEscapeExit(t *testing.T) {
	t.Parallel()
	needCgroups(t)
	fifo := filepath.Join(t.TempDir(), "exit")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	h := host(t, agents.Config{Launch: shell(strings.Replace(escaping, "exec cat", "read x <"+fifo+"; exit; cat", 1))})
	pid, group := escaped(t, h, "srv")
	if err := os.WriteFile(fifo, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	follow(t, h, "srv", agents.Replay{All: true}, "agent_exited")
	wait(t, func() error {
		if _, err := os.Stat(group); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there: %w", group, err)
		}
		return nil
	})
	isGone(t, pid)
}

// Hosts of one program, and hosts with one state directory, end only their own processes.
func TestEscapeHosts(t *testing.T) {
	t.Parallel()
	needCgroups(t)
	state := t.TempDir()
	first := host(t, agents.Config{Launch: shell(escaping), StateDir: state})
	one, oneGroup := escaped(t, first, "srv")
	second := host(t, agents.Config{Launch: shell(escaping), StateDir: state})
	two, twoGroup := escaped(t, second, "srv")
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	isGone(t, two, twoGroup, filepath.Dir(twoGroup))
	if !alive(one) {
		t.Error("what an agent of another host started was ended")
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	isGone(t, one, oneGroup, filepath.Dir(oneGroup))
}

// The processes of a killed host's agents are ended by the next host with its state directory,
// and by no other host.
func TestEscapeKilled(t *testing.T) {
	t.Parallel()
	needCgroups(t)
	state := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), actAs+"=left", "VICTIM_DIR="+state)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); { // among what it echoes
		pid, _ = strconv.Atoi(strings.Trim(lines.Text(), "[]"))
	}
	if pid == 0 {
		_ = cmd.Process.Kill()
		t.Fatalf("it tells no process: %v\n%s", cmd.Wait(), &stderr)
	}
	group := groupOf(t, pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	host(t, agents.Config{StateDir: t.TempDir()})
	host(t, agents.Config{})
	if !alive(pid) {
		t.Error("a host with another state directory ended it")
	}
	host(t, agents.Config{StateDir: state})
	isGone(t, pid, group, filepath.Dir(group))
}

// leave runs a host with an escaping agent until the host is killed.
func leave() int {
	ctx := context.Background()
	log, err := eventlog.Open(ctx, eventlog.Config{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h, err := agents.Start(ctx, agents.Config{Log: log, Launch: shell(escaping), StateDir: os.Getenv("VICTIM_DIR")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := h.Post(ctx, "srv", agents.PostOptions{Agent: "sh"}, []byte(`{"method":"hello"}`)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := h.Follow(ctx, "srv", agents.Replay{})
	for err == nil {
		var events []eventlog.Event
		events, err = s.Next(ctx)
		for _, e := range events {
			fmt.Printf("%s\n", e.Payload)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
