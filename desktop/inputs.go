package desktop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/deskhand/deskhand/internal/x11"
)

// inputs runs the inputs of a desktop, one at a time.
type inputs struct {
	lifecycle
	control control
	turns   *turns
	pending pendingInputs

	// releaseDue means that a former holder of control may hold keys or buttons, which
	// the next input releases first.
	releaseDue atomic.Bool
}

// act runs one input in its turn, if control and the policy allow it, emits it, and
// returns the result of f. prepare may be nil. It refuses the action or completes it,
// for example with the position on the screen. After the deadline, f may still run.
func act[T any](ctx context.Context, in *inputs, op string, limit time.Duration, a *Action,
	prepare func(*session) error, f func(context.Context, *session) (T, error),
) (T, error) {
	*a = ActionFrom(ctx, *a)
	began := time.Now()
	v, err := waitForControl(ctx, in, func() (T, error) { return actOnce(ctx, in, op, limit, a, prepare, f) })
	in.observe(ctx, Observed{OperationInput, a.Name, began, err})
	return v, err
}

// actOnce is act without the wait of WithControlWait.
func actOnce[T any](ctx context.Context, in *inputs, op string, limit time.Duration, a *Action,
	prepare func(*session) error, f func(context.Context, *session) (T, error),
) (T, error) {
	if a.Name == ActionType && a.keep == 0 {
		var done func()
		ctx, done = in.pending.begin(ctx, a.Actor, true, 0)
		defer done()
	}
	turns := in.turnsOf(ctx)
	ours := false // the action has the turn
	do := func(ctx context.Context, s *session) (v T, err error) {
		if err = in.takeTurn(ctx, s, op, a, prepare, &ours); err != nil {
			if held, ok := errors.AsType[*ControlHeldError](err); ok && in.turnFrom(ctx) == nil {
				err = held // of typing that control ended before it began
			}
			return v, err
		}
		if a.keep > 0 {
			var done func()
			ctx, done = in.pending.begin(ctx, a.Actor, true, a.keep)
			defer done()
		}
		v, err = f(ctx, s)
		err = cutShort(ctx, op, a, err)
		in.emit(a, err)
		if t := in.turnFrom(ctx); t != nil && err == nil {
			t.done.Add(1)
		}
		return v, err
	}
	v, err := callThen(ctx, &in.lifecycle, op, limit, do, func(s *session) {
		switch {
		case ours && in.cfg.paced(a.Actor):
			turns.release(nil)
		case ours:
			turns.release(s.input.Quiesce)
		}
	})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, ErrInterrupted) {
		err = &InterruptedError{Op: op, Cause: context.Cause(ctx)} // f has not returned yet
	}
	return v, err
}

// takeTurn waits for the turn of an action, and until programs are ready for it. ours says
// at any time whether the action has the turn, also if takeTurn fails or panics.
func (in *inputs) takeTurn(ctx context.Context, s *session, op string, a *Action, prepare func(*session) error, ours *bool) error {
	viewer, releases := a.Actor.Kind == ActorViewer, a.Name == ActionReleaseAll
	if releases {
		if err := in.admit(ctx, a); err != nil {
			return err
		}
		in.pending.interrupt(errReleased, func(b Actor) bool { return !viewer || b.Same(a.Actor) })
	}
	if err := in.turnsOf(ctx).acquireFor(ctx, a, op, viewer || releases); err != nil {
		return err
	}
	*ours = true
	if in.releaseDue.Swap(false) {
		if err := s.input.Release(); err != nil {
			return err
		}
	}
	if prepare != nil {
		if err := prepare(s); err != nil {
			return err
		}
	}
	if !releases {
		if err := in.admit(ctx, a); err != nil {
			return err
		}
	}
	if !in.cfg.paced(a.Actor) {
		if err := in.awaitPrograms(ctx, s, a, ours); err != nil {
			return cutShort(ctx, op, a, err)
		}
	}
	return in.control.allows(a.Actor) // another actor may have control now
}

// awaitPrograms waits until programs are ready for an action.
func (in *inputs) awaitPrograms(ctx context.Context, s *session, a *Action, ours *bool) error {
	err := s.follows(ctx, a)
	if err == nil {
		err = in.awaitListener(ctx, s, a, ours)
	}
	if err == nil {
		err = in.awaitSeparate(ctx, s, a, ours)
	}
	if err == nil && a.mayConfirm() {
		err = s.input.Keyboard.AwaitDialog(ctx)
	}
	return err
}

// admit returns an error if control or the policy does not allow an action.
func (in *inputs) admit(ctx context.Context, a *Action) error {
	a.Time = time.Now()
	if err := in.control.allows(a.Actor); err != nil {
		return err
	}
	if in.cfg.Policy == nil {
		return nil
	}
	return in.cfg.Policy(ctx, *a)
}

// paced reports whether an actor itself waits for programs before it sends more input, as
// the person at a viewer does.
func (c *Config) paced(a Actor) bool { return c.NoQuiesce || a.Kind == ActorViewer }

// follows waits until programs have handled the input before an action.
func (s *session) follows(ctx context.Context, a *Action) error {
	switch {
	case a.Name == ActionLaunch, a.Name == ActionReleaseAll:
		return nil
	case a.Name == ActionMove && !s.input.Pointer.ButtonDown():
		return s.input.QuiescePointer(ctx)
	}
	if err := s.input.Keyboard.AwaitPressed(ctx); err != nil {
		return err
	}
	return s.input.Quiesce(ctx)
}

// awaitListener delays keys until a program listens for them. It gives up the turn
// meanwhile, because some windows never listen for keys.
func (in *inputs) awaitListener(ctx context.Context, s *session, a *Action, ours *bool) error {
	if !a.Name.pressesKeys() {
		return nil
	}
	unheard, err := s.input.Unheard()
	if unheard == 0 || err != nil {
		return err
	}
	return in.yield(ctx, ours, func() error { return s.input.AwaitListener(ctx, unheard) })
}

// yield calls wait while other inputs may have the turn, and takes it again.
func (in *inputs) yield(ctx context.Context, ours *bool, wait func() error) error {
	turns := in.turnsOf(ctx)
	*ours = false
	turns.release(nil)
	if err := wait(); err != nil {
		return err
	}
	if err := turns.acquire(ctx, false); err != nil {
		return err
	}
	*ours = true
	return nil
}

// awaitSeparate delays a press on the spot of the previous one, so that programs do not take
// two clicks for a double click. It gives up the turn meanwhile.
func (in *inputs) awaitSeparate(ctx context.Context, s *session, a *Action, ours *bool) error {
	if !a.Name.pressesButton() || a.At == nil {
		return nil
	}
	n, _, err := buttonNumber(a.Button)
	if err != nil {
		return err
	}
	for {
		left := s.input.Pointer.UntilSeparate(n, x11.Point{X: a.At.X, Y: a.At.Y}, a.Count)
		if left <= 0 {
			return nil
		}
		if err := in.yield(ctx, ours, func() error { return sleep(ctx, left) }); err != nil {
			return err
		}
	}
}

// sleep waits for t, or until ctx ends.
func sleep(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// emit emits an action that had an effect. It leaves out the moves of viewers, a hundred a
// second.
func (in *inputs) emit(a *Action, err error) {
	if a.Name == ActionMove && a.Actor.Kind == ActorViewer && err == nil {
		return
	}
	if err != nil {
		if refused(err) {
			return
		}
		a.Error = err.Error()
	}
	in.events.Emit(Event{Type: EventAction, Action: a, Time: a.Time})
}

// refused reports whether an action failed before it had any effect.
func refused(err error) bool {
	if errors.Is(err, ErrInterrupted) {
		return false
	}
	for _, why := range []error{
		ErrInvalid, ErrRestarting, ErrControlHeld, ErrAppNotFound, ErrUnsupported, ErrWindowNotFound,
		x11.ErrNoWindow, x11.ErrScreenSize, x11.ErrContentTooLarge,
	} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}

// act is the function act for an input that returns only an error and needs no
// preparation.
func (in *inputs) act(ctx context.Context, op string, limit time.Duration, a *Action, f func(context.Context, *session) error) error {
	_, err := act(ctx, in, op, limit, a, nil, func(ctx context.Context, s *session) (struct{}, error) {
		return struct{}{}, f(ctx, s)
	})
	return err
}
