package desktop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

func at(x int) desktop.Move { return desktop.Move{At: desktop.Point{X: x, Y: 10}} }

// TestExclusive: input of other callers runs only in Yield during Exclusive.
func TestExclusive(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	ctx := desktop.WithActor(t.Context(), robot)
	sub := d.Subscribe(0)
	defer sub.Close()
	other := func() chan error {
		moved := make(chan error, 1)
		go func() {
			_, err := d.Move(t.Context(), at(99))
			moved <- err
		}()
		return moved
	}
	move := func(ctx context.Context, x int) {
		t.Helper()
		if _, err := d.Move(ctx, at(x)); err != nil {
			t.Error(err)
		}
	}
	err := d.Exclusive(ctx, func(ctx context.Context, turn *desktop.Turn) error {
		move(ctx, 1)
		between := other()
		move(ctx, 2)
		if err := d.Exclusive(ctx, func(ctx context.Context, nested *desktop.Turn) error {
			move(ctx, 3)
			return nested.Quiesce(ctx)
		}); err != nil {
			t.Error(err)
		}
		if len(between) != 0 {
			t.Error("another caller's input ran")
		}
		err := turn.Yield(ctx, func(context.Context) error { return <-between })
		move(ctx, 4)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-other(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 2, 3, 99, 4, 99} {
		for e := range sub.Events() {
			if e.Type != desktop.EventAction {
				continue
			}
			if e.Action.At.X != want || (want == 99) != (e.Action.Actor == api) {
				t.Errorf("action %+v, want one at %d", e.Action, want)
			}
			break
		}
	}
}

// TestExclusiveEnds: control, ReleaseAll, the context and Close end the inputs of Exclusive.
func TestExclusiveEnds(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	// until runs inputs until cut has ended them.
	until := func(ctx context.Context, cut func() error) error {
		t.Helper()
		done := make(chan error, 1)
		err := d.Exclusive(ctx, func(ctx context.Context, _ *desktop.Turn) error {
			go func() { done <- cut() }()
			for {
				if _, err := d.Move(ctx, at(5)); err != nil {
					return err
				}
			}
		})
		if err := <-done; err != nil {
			t.Error(err)
		}
		return err
	}
	ctx := desktop.WithActor(t.Context(), robot)
	sub := d.Subscribe(0)
	defer sub.Close()
	var held *desktop.ControlHeldError
	if err := until(ctx, func() error { return d.TakeControl(t.Context(), ann, false) }); !errors.As(err, &held) || held.Holder != ann {
		t.Errorf("after a person took control: %v", err)
	}
	for e := range sub.Events() {
		if a := e.Action; a != nil && a.Name == desktop.ActionExclusive {
			if a.Actor != robot || a.Error == "" || !strings.Contains(a.Error, fmt.Sprintf("(%d inputs were done)", a.Count)) {
				t.Errorf("event = %+v", a)
			}
			break
		}
	}
	never := func(context.Context, *desktop.Turn) error {
		t.Error("called without control")
		return nil
	}
	if err := d.Exclusive(ctx, never); !errors.As(err, &held) {
		t.Errorf("while a person has control: %v", err)
	}
	if err := d.ReleaseControl(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func() error { return d.ReleaseAll(t.Context()) }); !errors.Is(err, desktop.ErrInterrupted) {
		t.Errorf("after ReleaseAll: %v", err)
	}
	why := errors.New("the client has gone")
	ended, cancel := context.WithCancelCause(ctx)
	if err := until(ended, func() error { cancel(why); return nil }); !errors.Is(err, desktop.ErrInterrupted) || !errors.Is(err, why) {
		t.Errorf("after the end of ctx: %v", err)
	}
	err := d.Exclusive(ctx, func(ctx context.Context, turn *desktop.Turn) error {
		return turn.Yield(ctx, func(context.Context) error { return d.TakeControl(t.Context(), ann, false) })
	})
	if !errors.As(err, &held) {
		t.Errorf("a person took control in Yield: %v", err)
	}
	if err := d.ReleaseControl(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	waits := time.Now()
	err = d.Exclusive(ctx, func(ctx context.Context, _ *desktop.Turn) error {
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return d.Exclusive(short, never)
	})
	if !errors.Is(err, desktop.ErrInterrupted) || time.Since(waits) > 5*time.Second {
		t.Errorf("a call whose context ends while it waits: %v after %v", err, time.Since(waits))
	}
	if err := until(ctx, d.Close); !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := d.Exclusive(ctx, never); !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("of a closed desktop: %v", err)
	}
}
