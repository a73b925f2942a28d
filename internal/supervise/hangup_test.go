package supervise

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() { //nolint:gochecknoinits // only in init does the goroutine run on that thread
	switch os.Getenv(roleVariable) {
	case "readline", "headless":
		runtime.LockOSThread() // the first thread, whose masks /proc/PID/status shows
	}
}

// playReadline blocks and handles SIGTERM for a while, and then ignores it, as a shell's
// readline does in less time.
func playReadline() error {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	var mask unix.Sigset_t
	mask.Val[0] = 1 << (syscall.SIGTERM - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &mask, nil); err != nil {
		return err
	}
	fmt.Println("ready")
	<-terminated // the signal is not blocked in the other threads
	<-time.After(5 * searchWait / 2)
	signal.Ignore(syscall.SIGTERM)
	if err := unix.PthreadSigmask(unix.SIG_UNBLOCK, &mask, nil); err != nil {
		return err
	}
	select {}
}

// Children with a terminal that ignore SIGTERM end by SIGHUP.
func TestHangUp(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	readline := role(t, "readline")
	for name, tt := range map[string]struct {
		spec  Spec
		want  string
		times int
	}{
		"ignores it":                {script("trap '' TERM; echo ready; while :; do sleep 1; done"), "killed by SIGHUP", 1},
		"ignores it after a moment": {Spec{Path: readline.Path, Env: readline.Env}, "killed by SIGHUP", 1},
		"misses the first SIGHUP": {
			script("trap '' TERM; trap 'n=x$n; [ $n = x ] || exit 6' HUP; echo ready; while :; do sleep 1; done"), "exit status 6", 1,
		},
		"ends by SIGTERM": { // the child handles it immediately, or while it starts a program
			script(`trap 'trap "" TERM; sleep 0.2; exit 7' TERM; echo ready; while :; do sleep 0.01; done`), "exit status 7", 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range tt.times {
				if e := stopInTerminal(t, g, tt.spec); e.String() != tt.want {
					t.Errorf("%v, want %s", e, tt.want)
				}
			}
		})
	}
}

// stopInTerminal starts a child in a terminal, and stops it when it is ready.
func stopInTerminal(t *testing.T, g *Group, s Spec) Exit {
	t.Helper()
	master, tty := openPTY(t)
	out := &output{}
	s.Grace, s.TTY, s.Master, s.Output = time.Minute, tty, master, out
	c := start(t, g, s)
	tty.Close()
	out.await(t, "ready")
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.Exit()
}

// A child without a terminal gets no SIGHUP.
func TestNoHangUp(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	s := script("trap '' TERM; echo ready; while :; do sleep 1; done")
	out := &output{}
	s.Output, s.Grace = out, 3*searchWait
	c := start(t, g, s)
	out.await(t, "ready")
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := c.Exit(); e.Signal != syscall.SIGKILL {
		t.Errorf("%v, want a death by SIGKILL", e)
	}
}

// An ended process has empty masks.
func TestMasks(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	s, out := script("trap '' TERM; trap : USR1; echo ready; read line </dev/zero"), &output{}
	s.Output = out
	c := start(t, g, s)
	out.await(t, "ready")
	m := readMasks(c.pid)
	if !has(m.ignored, syscall.SIGTERM) || has(m.ignored, syscall.SIGUSR1) || has(m.ignored, syscall.SIGINT) || has(m.ignored, 0) {
		t.Errorf("it ignores %x", m.ignored)
	}
	if !c.hold() {
		t.Fatal("it has ended")
	}
	defer c.release()
	if err := c.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, c)
	if m := readMasks(c.pid); m != (masks{}) {
		t.Errorf("after its end: %+v", m)
	}
}

func script(text string) Spec { return Spec{Path: "sh", Args: []string{"-c", text}} }
