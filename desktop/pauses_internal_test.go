package desktop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPauses: the waits before restarts grow, until a program has run for a while or the desktop
// is closed.
func TestPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closing := make(chan struct{})
		var p pauses
		wait := func(want time.Duration) {
			t.Helper()
			begun := time.Now()
			if ok := p.wait(closing); !ok || time.Since(begun) != want {
				t.Errorf("wait() = %t after %v, want true after %v", ok, time.Since(begun), want)
			}
		}
		for _, want := range []time.Duration{0, firstPause, 2 * firstPause, 4 * firstPause} {
			wait(want)
		}
		for range 10 {
			p.wait(closing)
		}
		wait(longPause)
		<-time.After(calmAfter + time.Second)
		wait(0)
		wait(firstPause)
		close(closing)
		if p.wait(closing) {
			t.Error("wait() = true after the desktop was closed")
		}
	})
}

// TestEndWith ends a context with the first of its channels.
func TestEndWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		never, end := make(chan struct{}), make(chan struct{})
		ctx, cancel := endWith(t.Context(), nil, never, end)
		defer cancel()
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("the context ended before its channels")
		}
		close(end)
		synctest.Wait()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("the error of the context is %v", ctx.Err())
		}
	})
}
