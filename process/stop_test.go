package process_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/process"
)

// familyScript prints the process ids of a shell, its child, its grandchild and a daemon in a
// new session, and waits.
const familyScript = `
sh -c 'sleep 1000 & echo $$ $!; wait' >%s &
read children <%s
setsid sleep 1000 & echo pids $$ $! $children
wait`

// family starts familyScript.
func family(t *testing.T, m *process.Manager, before string) (*process.Process, []int) {
	t.Helper()
	path := fifo(t)
	p := start(t, m, script(before+fmt.Sprintf(familyScript, path, path)))
	pids := numbers(t, await(t, p, "pids"))
	if len(pids) != 4 {
		t.Fatalf("a family of %v", pids)
	}
	return p, pids
}

func TestKillEndsTheFamily(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p, pids := family(t, m, "trap '' TERM")
	other, kept := family(t, m, "")
	i := p.Kill(t.Context(), limit)
	if i.Running || i.Exit == nil || i.Exit.Signal != "SIGKILL" {
		t.Errorf("Kill returned %+v", i)
	}
	gone(t, pids...)
	poll(t, func() error { return none(p) })
	for _, pid := range kept {
		if !alive(pid) {
			t.Errorf("process %d of another family is dead", pid)
		}
	}
	if i := other.Stop(t.Context(), limit); i.Running || i.Exit.Signal != "SIGTERM" {
		t.Errorf("Stop returned %+v", i)
	}
	gone(t, kept...)
	poll(t, func() error { return none(other) })
}

// none returns an error while a process of the family runs.
func none(p *process.Process) error {
	u, err := p.Usage()
	if err == nil && u.Processes > 0 {
		err = context.DeadlineExceeded
	}
	return err
}

func TestStopSendsSIGTERM(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, script("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"))
	await(t, p, "ready")
	if i := p.Stop(t.Context(), limit); i.Running || code(*i.Exit) != "7" || !strings.Contains(text(p), "bye\n") {
		t.Errorf("%+v wrote %q", i, text(p))
	}
	if i := p.Stop(t.Context(), 0); i.Running || code(*i.Exit) != "7" {
		t.Errorf("Stop of an ended process: %+v", i)
	}
	if i := p.Kill(t.Context(), 0); i.Running || code(*i.Exit) != "7" {
		t.Errorf("Kill of an ended process: %+v", i)
	}
}

// Stop returns soon, and Kill ends processes that ignore SIGTERM.
func TestStopReturnsSoon(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, script("trap '' TERM; echo ready; while :; do sleep 1; done"))
	await(t, p, "ready")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, stop := range map[string]func() process.Info{
		"default": func() process.Info { return p.Stop(t.Context(), 0) },
		"50 ms":   func() process.Info { return p.Stop(t.Context(), 50*time.Millisecond) },
		"none":    func() process.Info { return p.Stop(t.Context(), -1) },
		"ctx":     func() process.Info { return p.Stop(ended, time.Hour) },
	} {
		began := time.Now()
		if i := stop(); !i.Running {
			t.Errorf("%s: it has ended: %+v", name, i)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s: Stop took %v", name, took)
		}
	}
	began := time.Now()
	if i := p.Kill(t.Context(), limit); i.Running || i.Exit.Signal != "SIGKILL" || time.Since(began) > 5*time.Second {
		t.Errorf("Kill after Stop: %+v after %v", i, time.Since(began))
	}
}

// Stop ends a shell at a terminal, which ignores SIGTERM.
func TestStopOfAShell(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	// The shell may miss a signal while it prepares to read the next line.
	for range 20 {
		p := start(t, m, process.Spec{Command: "bash", Args: []string{"--norc", "-i"}, Env: map[string]string{"TERM": "dumb"}, Terminal: true})
		if _, err := p.Write(t.Context(), []byte("echo rea''dy\n")); err != nil {
			t.Fatal(err)
		}
		await(t, p, "ready")
		began := time.Now()
		if i := p.Stop(t.Context(), 5*time.Second); i.Running {
			t.Fatalf("it runs %v after Stop: %+v", time.Since(began), i)
		}
	}
	// A process that ends by SIGTERM gets no SIGHUP, which it may not handle.
	p := start(t, m, inTerminal("trap 'sleep 0.1; echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"))
	await(t, p, "ready")
	if i := p.Stop(t.Context(), limit); i.Running || code(*i.Exit) != "7" {
		t.Errorf("%+v wrote %q", i, text(p))
	}
}

// Close of a shell at a terminal is quick.
func TestCloseOfAShell(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, inTerminal("trap '' TERM; echo ready; while :; do sleep 0.01; done"))
	await(t, p, "ready")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if i := p.Info(); i.Exit == nil || i.Exit.Signal != "SIGHUP" {
		t.Errorf("%+v", i)
	}
}

// Stop of an ended process ends the processes that it left.
func TestStopAfterTheEnd(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, script("setsid sleep 1000 & echo pids $!"))
	pids := numbers(t, await(t, p, "pids"))
	i := wait(t, p)
	if !alive(pids[0]) {
		t.Fatal("the daemon has ended")
	}
	if after := p.Stop(t.Context(), 0); after.Running || !after.Ended.Equal(i.Ended) {
		t.Errorf("Stop changed %+v to %+v", i, after)
	}
	gone(t, pids...)
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	var all []int
	for range 3 {
		_, pids := family(t, m, "")
		all = append(all, pids...)
	}
	p := start(t, m, inTerminal("setsid sleep 1000 & echo pids $!; wait"))
	all = append(all, numbers(t, await(t, p, "pids"))...)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("process %d outlives Close", pid)
		}
	}
	if i := p.Info(); i.Running {
		t.Errorf("%+v", i)
	}
	if _, err := m.Start(script("true")); err != process.ErrClosed { //nolint:errorlint // not wrapped
		t.Errorf("Start after Close: %v", err)
	}
	if _, err := m.Find(p.ID()); err != process.ErrClosed { //nolint:errorlint // not wrapped
		t.Errorf("Find after Close: %v", err)
	}
	if err := m.Remove(p.ID()); err != process.ErrClosed { //nolint:errorlint // not wrapped
		t.Errorf("Remove after Close: %v", err)
	}
	if l := m.List(""); len(l) != 0 {
		t.Errorf("List after Close: %+v", l)
	}
	if i := p.Stop(t.Context(), 0); i.Running {
		t.Errorf("Stop after Close: %+v", i)
	}
	if err := m.Close(); err != nil {
		t.Error("second Close:", err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, script("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo busy; sleep 1000 & wait"))
	await(t, p, "busy")
	poll(t, func() error {
		u, err := p.Usage()
		if err == nil && (u.Processes != 2 || u.CPU < 10*time.Millisecond || u.Memory < int64(os.Getpagesize())) {
			t.Logf("%+v", u)
			err = context.DeadlineExceeded
		}
		return err
	})
	p.Kill(t.Context(), limit)
	poll(t, func() error { return none(p) })
	if u, err := p.Usage(); err != nil || u.Memory != 0 {
		t.Errorf("after the end: %+v, %v", u, err)
	}
}
