package quiesce

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// spin starts a process that computes, on the first processor that this one may use.
func spin(t *testing.T) *exec.Cmd {
	t.Helper()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Skip(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	c := exec.Command("/bin/sh", "-c", "while :; do :; done")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	if err := unix.SchedSetaffinity(c.Process.Pid, &one); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWithinWork: a limit is longer by the time that a process waits for a processor, but not
// without end.
func TestWithinWork(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	lasts := func(pids ...int) time.Duration {
		t.Helper()
		begun := time.Now()
		err := withinWork(t.Context(), limit, func() []int { return pids }, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if err == nil {
			t.Error("the context did not end")
		}
		return time.Since(begun)
	}
	if took := lasts(1 << 22); took < limit {
		t.Errorf("a process that has ended: %v", took)
	}
	one, two := spin(t), spin(t)
	if len(runDelays([]int{os.Getpid()})) == 0 {
		t.Skip("the kernel does not tell how long threads wait for a processor")
	}
	// Each of them has half of a processor at most.
	if took := max(lasts(one.Process.Pid), lasts(two.Process.Pid)); took < limit*3/2 {
		t.Errorf("two processes that share a processor: %v", took)
	}
}
