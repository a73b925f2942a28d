package fleet

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// TestIdleStop wants a desktop that no caller uses to be stopped, and to start again with its
// options if they ask for that.
func TestIdleStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fake faker
		var busy atomic.Bool
		f := open(t, Config{Start: fake.start, IdleStop: 30 * time.Minute, InUse: func(string) bool { return busy.Load() }})
		in, err := f.Create(t.Context(), "one", StartOptions{Desktop: desktop.Config{DPI: 120}, RestartAfterIdle: true})
		if err != nil {
			t.Fatal(err)
		}
		is := func(when string, state desktop.State, idle bool) {
			t.Helper()
			synctest.Wait()
			if s := in.Status(); s.State != state || s.Idle != idle {
				t.Fatalf("%s: %s, idle %v; want %s, %v", when, s.State, s.Idle, state, idle)
			}
		}
		for range 5 {
			time.Sleep(20 * time.Minute)
			in.Use()
		}
		is("while it is used", desktop.StateActive, false)
		busy.Store(true)
		time.Sleep(3 * time.Hour)
		is("while an agent has it", desktop.StateActive, false)
		busy.Store(false)
		time.Sleep(20 * time.Minute)
		is("after 20 minutes", desktop.StateActive, false)
		time.Sleep(20 * time.Minute)
		is("after 40 minutes", desktop.StateInactive, true)
		if n := fake.open.Load(); n != 0 {
			t.Fatalf("%d desktops are open", n)
		}
		if err := in.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		is("after Resume", desktop.StateActive, false)
		if dpi := fake.cfg.Load().DPI; dpi != 120 {
			t.Errorf("it was started again with %d dots per inch", dpi)
		}
		time.Sleep(time.Hour)
		is("idle again", desktop.StateInactive, true)
		if err := in.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := in.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		is("stopped by a caller", desktop.StateInactive, false)

		if in, err = f.Find(Main); err == nil {
			err = in.Start(t.Context(), StartOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		is("main", desktop.StateInactive, true)
		if err := in.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		is("without RestartAfterIdle", desktop.StateInactive, true)
	})
}
