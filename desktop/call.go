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
