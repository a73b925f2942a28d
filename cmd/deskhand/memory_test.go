package main

import (
	"runtime/debug"
	"testing"

	"github.com/deskhand/deskhand/internal/supervise"
)

// TestLimitMemory changes the limit of the test's own process.
func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "off")
	limitMemory()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("with GOMEMLIMIT the limit is %d, want %d", got, before)
	}
	t.Setenv("GOMEMLIMIT", "")
	limitMemory()
	if got, want := debug.SetMemoryLimit(-1), supervise.MemoryLimit()/2; got != want || got <= 0 {
		t.Errorf("the limit is %d, want %d", got, want)
	}
}
