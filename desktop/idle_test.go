package desktop

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		i := &idle{after: 30 * time.Second, f: func() { calls.Add(1) }}
		want := func(n int32, when string) {
			t.Helper()
			synctest.Wait()
			if got := calls.Load(); got != n {
				t.Errorf("%s: %d calls, want %d", when, got, n)
			}
		}
		pass := func(d time.Duration) { <-time.After(d) }
		pass(time.Hour)
		want(0, "never used")
		i.use()
		pass(20 * time.Second)
		i.use()
		pass(29 * time.Second)
		want(0, "used again")
		pass(2 * time.Second)
		want(1, "unused")
		pass(time.Hour)
		want(1, "unused for long")
		i.use()
		pass(31 * time.Second)
		want(2, "used and unused once more")
		i.use()
		i.stop()
		i.use()
		pass(time.Hour)
		want(2, "stopped")
	})
}
