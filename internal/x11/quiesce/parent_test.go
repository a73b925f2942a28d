package quiesce

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestStarts: a shell starts a program while a new fork of it runs, and not while a fork has run for
// long.
func TestStarts(t *testing.T) {
	t.Parallel()
	shell := func(script string) (pid int) {
		cmd := exec.Command("sh", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
		return cmd.Process.Pid
	}

	left := maxFamily
	forks := shell(`while :; do (i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done); done`)
	until(t, "new fork", func() bool { left = maxFamily; return starts(forks, &left) })
	if left != maxFamily-1 {
		t.Errorf("a child takes %d of the children to look at, want 1", maxFamily-left)
	}
	many := shell(fmt.Sprintf(`i=0; while [ $i -lt %d ]; do sleep 1000 & i=$((i+1)); done; while :; do (i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done); done`, maxFamily))
	until(t, "new fork after many", func() bool { left = 1; return starts(many, &left) && len(allChildrenOf(many)) > maxFamily })
	left = 0
	for range 100 {
		if starts(forks, &left) || left != 0 {
			t.Fatalf("looked at a child though none was left: %d", left)
		}
	}

	loop := shell(`while :; do :; done & wait; :`)
	until(t, "old fork", func() bool {
		children := childrenOf(loop)
		if len(children) == 0 {
			return false
		}
		state, age := activityOf(children[0])
		return state == "R" && age >= startLimit
	})
	left = maxFamily
	if starts(loop, &left) {
		t.Error("an old fork counts as a program that starts")
	}
}

// TestOpened: a terminal has opened a tab when a program with a new terminal has started.
func TestOpened(t *testing.T) {
	t.Parallel()
	before := time.Now()
	cmd := exec.Command("sh", "-c", "script -qc 'exec sleep 1000' /dev/null & wait; :")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	var tab parent
	until(t, "program with a terminal", func() bool {
		for _, child := range childrenOf(cmd.Process.Pid) {
			tab = parentOf(child)
		}
		return tab.terminal
	})
	if !tab.opened(before) {
		t.Errorf("the program started at %v, want after %v", tab.newest, before)
	}
	if tab.opened(time.Now().Add(startAccuracy)) {
		t.Errorf("the program started at %v, want before now", tab.newest)
	}
	if (parent{}).opened(time.Now()) {
		t.Error("a process without children has opened a tab")
	}
}
