package main

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestNoCoreDump aborts a server that has no limit of core dumps.
func TestNoCoreDump(t *testing.T) {
	t.Parallel()
	const unlimited = `ulimit -c unlimited && cd "$1" && shift && exec "$@"`
	dir := t.TempDir()
	abort := exec.Command("sh", "-c", unlimited, "sh", t.TempDir(), "sh", "-c", "kill -ABRT $$")
	_ = abort.Run() // ends by the signal
	if status := abort.ProcessState.Sys().(syscall.WaitStatus); !status.CoreDump() {
		t.Skipf("this machine dumps no core: %v", abort.ProcessState)
	}
	// The runtime of Go aborts after it has printed the stacks.
	s := serveAs(t, "sh", environ(t, "GOTRACEBACK=crash"), "-c", unlimited, "sh", dir, binary, "server", "--port", "0")
	s.signal(t, syscall.SIGABRT)
	if status := s.state.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGABRT || status.CoreDump() {
		t.Errorf("the server ended with %v", s.state)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
		t.Errorf("it left %v", files)
	}
}
