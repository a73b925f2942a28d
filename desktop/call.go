package desktop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// Deadlines of calls whose context has none, or a later one.
const (
	queryLimit      = 5 * time.Second  // a question to the X server
	inputLimit      = 10 * time.Second // one pointer or key action
	windowLimit     = 5 * time.Second  // until the window manager has done it
	clipboardLimit  = 15 * time.Second // a whole transfer
	screenshotLimit = 30 * time.Second
	launchLimit     = 15 * time.Second // until the window is there
)

// enter returns the session to use, or why there is none. Close waits for calls
// that have entered.
func (l *lifecycle) enter() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.currentLocked()
	if err == nil {
		l.calls.Add(1)
	}
	return s, err
}

// outcome is what a call came to.
type outcome[T any] struct {
	value T
	err   error
}

// call runs f on the present session, for at most limit. f goes on in its own
// goroutine when the X server hangs, until the connection ends; the caller does
// not wait for it.
func call[T any](ctx context.Context, l *lifecycle, op string, limit time.Duration, f func(context.Context, *session) (T, error)) (T, error) {
	return callThen(ctx, l, op, limit, f, func(*session) {})
}

// callThen is call, and has then run on the session when the caller has what f
// returned.
func callThen[T any](ctx context.Context, l *lifecycle, op string, limit time.Duration,
	f func(context.Context, *session) (T, error), then func(*session),
) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, fmt.Errorf("%s: %w", op, err)
	}
	s, err := l.enter()
	if err != nil {
		return zero, fmt.Errorf("%s: %w", op, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &DeadlineError{Op: op, After: limit})
	defer cancel()
	done := make(chan outcome[T], 1)
	go func() {
		defer l.calls.Done()
		v, err := f(ctx, s)
		done <- outcome[T]{v, err}
		then(s)
	}()
	hangs := true
	select {
	case r := <-done:
		return r.value, l.explain(ctx, op, r.err)
	case <-ctx.Done():
	case <-l.closing:
		cancel()
		hangs = false // or it does not matter any more
	}
	// What f has to say, such as how far it came, is better than the bare
	// deadline; f sees the same context, so it is given a moment.
	grace := time.NewTimer(100 * time.Millisecond)
	defer grace.Stop()
	select {
	case r := <-done:
		return r.value, l.explain(ctx, op, r.err)
	case <-grace.C:
	}
	if hangs {
		select {
		case l.suspicion <- struct{}{}: // the recovery goroutine asks the X server
		default:
		}
	}
	return zero, l.explain(ctx, op, ctx.Err())
}

// explain turns what went wrong below into this package's errors.
func (l *lifecycle) explain(ctx context.Context, op string, err error) error {
	var invalid *InvalidError
	var deadline *DeadlineError
	var interrupted *InterruptedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid), errors.As(err, &deadline):
		return err
	case l.isClosing() && (lost(err) || errors.Is(err, context.Canceled)):
		return fmt.Errorf("%s: %w", op, ErrClosed)
	case errors.As(err, &interrupted):
		return err
	case lost(err):
		return fmt.Errorf("%s: %w", op, ErrRestarting)
	case errors.Is(err, context.DeadlineExceeded):
		if cause := context.Cause(ctx); errors.As(cause, &deadline) {
			return deadline
		}
	case errors.Is(err, x11.ErrNoWindow):
		return fmt.Errorf("%s: %w", op, ErrWindowNotFound)
	case errors.Is(err, x11.ErrNoContent):
		return fmt.Errorf("%s: %w", op, ErrNoClipboardContent)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// lost says whether an error only tells that the session has ended.
func lost(err error) bool {
	return errors.Is(err, x11.ErrConnClosed) || errors.Is(err, x11.ErrCaptureClosed) || errors.Is(err, supervise.ErrClosed)
}

// act runs one input: alone, after the policy has agreed, and tells
// subscribers. prepare, unless nil, fills in what of the action is only known
// with a session, such as the position on the screen, or refuses it. What f
// finds out it returns: once the deadline has passed, it may still be running.
func act[T any](ctx context.Context, in *inputs, op string, limit time.Duration, a *Action,
	prepare func(*session) error, f func(context.Context, *session) (T, error),
) (T, error) {
	*a = ActionFrom(ctx, *a)
	viewer, releases := a.Actor.Kind == ActorViewer, a.Name == ActionReleaseAll
	if a.long {
		var done func()
		ctx, done = in.pending.begin(ctx, a.Actor)
		defer done()
	}
	ours := false // the turn, of the one goroutine that both functions run on
	do := func(ctx context.Context, s *session) (v T, err error) {
		if releases {
			if err := in.admit(ctx, a); err != nil {
				return v, err
			}
			in.pending.interrupt(errReleased, func(b Actor) bool { return !viewer || b.same(a.Actor) })
		}
		if err := in.turns.take(ctx, viewer || releases); err != nil {
			return v, cutShort(ctx, op, a, err)
		}
		ours = true
		if prepare != nil {
			if err := prepare(s); err != nil {
				return v, err
			}
		}
		if !releases {
			if err := in.admit(ctx, a); err != nil {
				return v, err
			}
		}
		if !in.cfg.paced(a.Actor) {
			if err := s.follows(ctx, a); err != nil {
				return v, cutShort(ctx, op, a, err)
			}
			if ours, err = in.awaitListener(ctx, s, a); err != nil {
				return v, cutShort(ctx, op, a, err)
			}
		}
		v, err = f(ctx, s)
		err = cutShort(ctx, op, a, err)
		in.tell(a, err)
		return v, err
	}
	v, err := callThen(ctx, &in.lifecycle, op, limit, do, func(s *session) {
		switch {
		case ours && in.cfg.paced(a.Actor):
			in.turns.give(nil)
		case ours:
			in.turns.give(s.input.Quiesce)
		}
	})
	if errors.Is(err, context.Canceled) && !errors.Is(err, ErrInterrupted) {
		err = &InterruptedError{Op: op, Cause: context.Cause(ctx)} // f has not told how far it came
	}
	return v, err
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

// paced reports whether an actor waits for programs itself before it sends more
// input. A viewer does: a person waits for what they see.
func (c *Config) paced(a Actor) bool { return c.NoQuiesce || a.Kind == ActorViewer }

// follows has an action wait until programs have dealt with the input before it.
func (s *session) follows(ctx context.Context, a *Action) error {
	switch {
	case a.Name == ActionLaunch, a.Name == ActionReleaseAll:
		return nil
	case a.Name == ActionMove && !s.input.Pointer.ButtonDown():
		return s.input.QuiescePointer(ctx)
	}
	return s.input.Quiesce(ctx)
}

// awaitListener has keys wait until a program wants them, and gives the turn away
// meanwhile: some windows never want any. It reports whether it has the turn again.
func (in *inputs) awaitListener(ctx context.Context, s *session, a *Action) (ours bool, err error) {
	if !a.Name.pressesKeys() {
		return true, nil
	}
	unheard, err := s.input.Unheard()
	if unheard == 0 || err != nil {
		return true, err
	}
	in.turns.give(nil)
	if err := s.input.AwaitListener(ctx, unheard); err != nil {
		return false, err
	}
	if err := in.turns.take(ctx, false); err != nil {
		return false, err
	}
	return true, in.control.allows(a.Actor) // somebody may have taken it
}

// tell emits an action that was done, or of which at least a part was. A
// viewer's moves are not told: there are a hundred in a second, and what matters
// of them is where the clicks are.
func (in *inputs) tell(a *Action, err error) {
	if a.Name == ActionMove && a.Actor.Kind == ActorViewer && err == nil {
		return
	}
	if err != nil {
		if refused(err) {
			return
		}
		a.Error = err.Error()
	}
	in.events.emit(Event{Type: EventAction, Action: a, Time: a.Time})
}

// refused says whether an action failed before it had any effect.
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

// act is the function act for what returns only an error and needs no
// preparation.
func (in *inputs) act(ctx context.Context, op string, limit time.Duration, a *Action, f func(context.Context, *session) error) error {
	_, err := act(ctx, in, op, limit, a, nil, func(ctx context.Context, s *session) (struct{}, error) {
		return struct{}{}, f(ctx, s)
	})
	return err
}
