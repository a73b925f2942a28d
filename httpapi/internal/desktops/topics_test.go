package desktops

import (
	"bytes"
	"context"
	"runtime"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/events"
)

// loggingDesktop is a desktop with events, which Close does not end.
type loggingDesktop struct {
	fakeDesktop
	log *desktop.EventLog
}

func (d *loggingDesktop) Subscribe(after uint64) *desktop.Subscription { return d.log.Subscribe(after) }

// TestDeletedDesktopIsLeft: a stream keeps nothing of a desktop that was deleted. All its events
// come before its deletion, and the deletion before another desktop of that id.
func TestDeletedDesktopIsLeft(t *testing.T) {
	t.Parallel()
	all, err := fleet.Open(t.Context(), fleet.Config{
		StateDir: t.TempDir(),
		Start: func(_ context.Context, id string, _ desktop.Config) (fleet.Desktop, error) {
			return &loggingDesktop{log: desktop.NewEventLog(id)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	messages, done := make(chan events.Message), make(chan error)
	s := &desktopSource{fleet: all, input: true, recordings: true, wanted: func(desktop.EventType) bool { return true }}
	go func() {
		done <- s.run(ctx, func(m events.Message) bool {
			select {
			case messages <- m:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	create := func() *fleet.Instance {
		t.Helper()
		inst, err := all.Create(t.Context(), "other", fleet.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return inst
	}
	// awaitState returns the messages about the desktop up to one with its state.
	awaitState := func(state desktop.State) (before []events.Message, last events.Message) {
		for m := range messages {
			switch e := m.Data.(type) {
			case desktop.Event:
				before = append(before, m)
			case stateEvent:
				if e.Desktop == "other" && e.State == state {
					return before, m
				}
				if e.Desktop == "other" && (e.State == deleted || e.State == desktop.StateActive) {
					t.Fatalf("the state %s instead of %s", e.State, state)
				}
			}
		}
		panic("unreachable")
	}
	for range 2 {
		inst := create()
		_, m := awaitState(desktop.StateActive)
		if m.Key != "desktop:other" || m.At == "" {
			t.Errorf("the start has the position %q of %q", m.At, m.Key)
		}
		d, err := inst.Desktop()
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			d.(*loggingDesktop).log.Emit(desktop.Event{Type: desktop.EventClipboardChanged})
		}
		if err := inst.Delete(t.Context()); err != nil { // the source waits for the reader
			t.Fatal(err)
		}
		create()
		before, m := awaitState(deleted)
		if len(before) != 5 || m.Key != "desktop:other" || m.At != "" {
			t.Errorf("%d events, and then the position %q of %q", len(before), m.At, m.Key)
		}
		awaitState(desktop.StateActive)
		if inst, err = all.Find("other"); err == nil {
			err = inst.Delete(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		awaitState(deleted)
		if n := following(); n > 1 { // main's
			t.Errorf("%d goroutines follow the recordings of desktops", n)
		}
	}
	cancel()
	if err := <-done; err != nil || following() != 0 {
		t.Errorf("the source ended with %v, and %d goroutines follow recordings", err, following())
	}
}

// following returns the number of goroutines in sendRecordings.
func following() int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(".sendRecordings("))
}
