package batch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

func (a Wait) do(ctx context.Context, r *run, done *Done) error {
	return r.yield(ctx, func(ctx context.Context) error { return a.wait(ctx, r, done) })
}

// yield calls f while other callers may send input.
func (r *run) yield(ctx context.Context, f func(context.Context) error) error {
	if r.turn == nil {
		return f(ctx)
	}
	return r.turn.Yield(ctx, f)
}

func (a Wait) wait(ctx context.Context, r *run, done *Done) error {
	switch a.Until {
	case "":
		return pause(ctx, a.For)
	case UntilSettled:
		settled, err := r.settle(ctx, untilQuiet, cmp.Or(a.Timeout, untilLimit))
		done.Settled = &settled.Quiet
		return err
	case UntilWindow:
		return a.until(ctx, a.hasWindow(r, done))
	case UntilElement:
		return a.until(ctx, a.hasElement(r))
	case UntilGone:
		has := a.hasElement(r)
		if a.Window != "" {
			has = a.anyWindow(r)
		}
		return a.until(ctx, func(ctx context.Context) (bool, error) {
			is, err := has(ctx)
			return !is, err
		})
	}
	return nil
}

// until waits until a condition holds.
func (a Wait) until(ctx context.Context, holds func(context.Context) (bool, error)) error {
	limit := cmp.Or(a.Timeout, untilLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &desktop.DeadlineError{Op: "wait until " + string(a.Until), After: limit})
	defer cancel()
	for {
		if ok, err := holds(ctx); ok || err != nil && ctx.Err() == nil {
			return err
		}
		if err := pause(ctx, waitPace); err != nil {
			return err
		}
	}
}

// focusTime is how long a new window may take to get the focus. Some never do.
const focusTime = 250 * time.Millisecond

// hasWindow returns a function that reports whether there is a window that has the focus, or
// that has had the time to get it.
func (a Wait) hasWindow(r *run, done *Done) func(context.Context) (bool, error) {
	match, err := a.matcher()
	var since time.Time
	return func(ctx context.Context) (bool, error) {
		if err != nil {
			return false, err
		}
		list, err := r.Desktop.Windows(ctx, desktop.WindowFilter{All: true})
		i := slices.IndexFunc(list, func(w desktop.Window) bool { return w.Active && match(w) })
		if i < 0 {
			i = slices.IndexFunc(list, match)
		}
		if i < 0 {
			return false, err
		}
		if since.IsZero() {
			since = time.Now()
		}
		done.Window = list[i].ID
		return list[i].Active || time.Since(since) >= focusTime, nil
	}
}

// anyWindow returns a function that reports whether there is a window.
func (a Wait) anyWindow(r *run) func(context.Context) (bool, error) {
	match, err := a.matcher()
	return func(ctx context.Context) (bool, error) {
		if err != nil {
			return false, err
		}
		list, err := r.Desktop.Windows(ctx, desktop.WindowFilter{All: true})
		return slices.ContainsFunc(list, match), err
	}
}

func (a Wait) hasElement(r *run) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		ref, err := r.Elements.Find(ctx, a.Role, a.Name)
		return ref != "", err
	}
}

// pause waits for d. It returns the cause of ctx if that ends first: a *desktop.DeadlineError,
// or why the batch was cut.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if late, ok := errors.AsType[*desktop.DeadlineError](cause); ok {
			return late
		}
		return &desktop.InterruptedError{Op: "wait", Cause: cause}
	}
}
