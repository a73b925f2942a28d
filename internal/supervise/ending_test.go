package supervise

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// playHeadless ends its first thread and continues.
func playHeadless() error {
	go func() {
		fmt.Println("ready")
		select {}
	}()
	_, _, err := syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	return err
}

// A process ends with its last thread, not with its first one.
func TestEnding(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	cmd, out := role(t, "headless"), &output{}
	c := start(t, g, Spec{Path: cmd.Path, Env: cmd.Env, Output: out})
	out.await(t, "ready")
	if err := poll(time.Minute, func() error {
		p, err := readProcess(c.pid)
		if err == nil && p.state != 'Z' {
			err = errors.New("its first thread runs")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if c.Ending() {
		t.Error("Ending() = true for a running process")
	}
	if err := c.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, c)
	if !c.Ending() {
		t.Error("Ending() = false for an ended process")
	}
}
