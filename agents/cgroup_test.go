package agents

import (
	"os/exec"
	"testing"
)

func TestCgroup(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := newCgroup("test", cmd.Process.Pid)
	if g == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err := sweepCgroups(); err != nil {
			t.Error(err)
		}
		t.Skip("no control groups of version 2 can be made here")
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	if err := g.end(); err != nil {
		t.Error(err)
	}
	if err := <-waited; err == nil {
		t.Error("the process was not killed")
	}
}
