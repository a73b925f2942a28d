package desktop_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// TestControlWait: input of an agent waits for the end of a viewer's control, if its context
// says so, and fails immediately or after the time otherwise.
func TestControlWait(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	take := func() {
		t.Helper()
		if err := d.TakeControl(t.Context(), ann, false); err != nil {
			t.Fatal(err)
		}
	}
	agent := desktop.WithActor(t.Context(), robot)
	inputs := map[string]func(ctx context.Context) error{
		"click": func(ctx context.Context) error { _, err := d.Click(ctx, desktop.Click{}); return err },
		"type": func(ctx context.Context) error {
			return d.Type(ctx, desktop.Type{Text: "0123456789012345678901234567890"})
		},
		"turn": func(ctx context.Context) error {
			return d.Exclusive(ctx, func(ctx context.Context, _ *desktop.Turn) error {
				_, err := d.Click(ctx, desktop.Click{})
				return err
			})
		},
	}
	for name, input := range inputs {
		begun := time.Now()
		take()
		since := d.Control().Since
		for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
			err := input(desktop.WithControlWait(agent, wait))
			var held *desktop.ControlHeldError
			if !errors.As(err, &held) || held.Holder != ann || !held.Since.Equal(since) || held.Since.Before(begun) {
				t.Errorf("%s, wait %v: %v, want a *ControlHeldError since %v", name, wait, err, since)
			}
		}
		ctx, cancel := context.WithCancel(desktop.WithControlWait(agent, time.Minute))
		stop := time.AfterFunc(50*time.Millisecond, cancel)
		if err := input(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s of a caller that leaves: %v", name, err)
		}
		stop.Stop()

		var released atomic.Bool
		done := make(chan error, 1)
		go func() {
			err := input(desktop.WithControlWait(agent, time.Minute))
			if !released.Load() {
				t.Errorf("%s did not wait", name)
			}
			done <- err
		}()
		// It waits again if another viewer has control at the end of the first.
		if err := d.GiveControl(t.Context(), ann, bob); err != nil {
			t.Error(err)
		}
		released.Store(true)
		if err := d.ReleaseControl(t.Context(), bob); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	take()
	runs := 0
	err := d.Exclusive(desktop.WithControlWait(desktop.WithActor(t.Context(), ann), time.Minute), func(context.Context, *desktop.Turn) error {
		runs++
		return &desktop.ControlHeldError{Holder: bob}
	})
	if runs != 1 || !errors.Is(err, desktop.ErrControlHeld) {
		t.Errorf("a turn that returns a ControlHeldError ran %d times: %v", runs, err)
	}
	if err := d.TakeControl(t.Context(), robot, true); !errors.Is(err, desktop.ErrControlHeld) {
		t.Errorf("an agent takes control from a viewer by force: %v", err)
	}
	if err := d.TakeControl(t.Context(), api, true); err != nil {
		t.Errorf("an API caller takes control by force: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- inputs["click"](desktop.WithControlWait(agent, time.Minute)) }()
	until(t, "the agent is seen", func() bool { return len(d.Actors()) > 0 })
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("input that waits when the desktop is closed: %v", err)
	}
}

// TestControlWaitOfQueuedInput: typing and a list wait for their turn when another actor takes
// control. They then wait for the end of control, as their context says. The test is not parallel,
// because it searches all goroutines for them.
func TestControlWaitOfQueuedInput(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	d := start(t, desktop.Config{Policy: func(_ context.Context, a desktop.Action) error {
		if a.Name == desktop.ActionClick {
			close(begun)
			<-end
		}
		return nil
	}})
	path := xterm(t, d)
	clicked, typed, done := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := d.Click(t.Context(), desktop.Click{})
		clicked <- err
	}()
	<-begun
	go func() {
		ctx := desktop.WithControlWait(desktop.WithActor(t.Context(), robot), time.Minute)
		typed <- d.Type(ctx, desktop.Type{Text: "a\n"})
	}()
	go func() {
		ctx := desktop.WithControlWait(desktop.WithActor(t.Context(), robot), time.Minute)
		done <- d.Exclusive(ctx, func(context.Context, *desktop.Turn) error { return nil })
	}()
	stacks := make([]byte, 4<<20)
	until(t, "typing and a list wait for their turn", func() bool {
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("desktop.(*turns).acquireFor(")) == 2
	})
	if err := d.TakeControl(t.Context(), ann, false); err != nil {
		t.Error(err)
	}
	close(end)
	if err := <-clicked; !errors.Is(err, desktop.ErrControlHeld) {
		t.Errorf("Click() = %v, want %v", err, desktop.ErrControlHeld)
	}
	if err := d.ReleaseControl(t.Context(), ann); err != nil {
		t.Error(err)
	}
	if err := <-typed; err != nil {
		t.Errorf("Type() = %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Exclusive() = %v", err)
	}
	wantTyped(t, path, "a\n")
}
