package desktop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/internal/panics"
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

	// grace is how long f may take to return when its context has ended.
	grace = 100 * time.Millisecond
)

// enter returns the session for a call. The caller must call leave, for which Close waits.
func (l *lifecycle) enter() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.currentLocked()
	if err == nil {
		l.calls.Add(1)
		l.running++
		l.usedAt = time.Now()
	}
	return s, err
}

// leave ends a call that enter began.
func (l *lifecycle) leave() {
	l.mu.Lock()
	l.running--
	l.usedAt = time.Now()
	l.mu.Unlock()
	l.calls.Done()
}

type outcome[T any] struct {
	value T
	err   error
}

// call runs f on the present session and returns its result, or an error after limit. If
// the X server hangs, f continues in a goroutine until the connection ends. If f panics, the
// session stays: f must unlock by defer, and an X server whose connection is left without
// answers counts as hung.
func call[T any](ctx context.Context, l *lifecycle, op string, limit time.Duration, f func(context.Context, *session) (T, error)) (T, error) {
	return callThen(ctx, l, op, limit, f, func(*session) {})
}

// callThen is like call, and calls then when the caller has the result of f.
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
		defer l.leave()
		var r outcome[T]
		r.err = panics.Catch(l.log, op, func() (err error) {
			r.value, err = f(ctx, s)
			return err
		})
		done <- r
		_ = panics.Catch(l.log, op, func() error {
			then(s)
			return nil
		})
	}()
	select {
	case r := <-done:
		return r.value, l.explain(ctx, op, r.err)
	case <-ctx.Done():
	case <-l.closing:
		cancel()
	}
	// The error of f, with its progress, is better than the bare deadline.
	select {
	case r := <-done:
		return r.value, l.explain(ctx, op, r.err)
	case <-time.After(grace):
	}
	select {
	case l.suspicion <- struct{}{}: // the recovery goroutine asks the X server
	default:
	}
	return zero, l.explain(ctx, op, ctx.Err())
}

// explain turns an error of package x11 or of a context into one of this package.
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

// lost reports whether an error means that the session has ended.
func lost(err error) bool {
	return errors.Is(err, x11.ErrConnClosed) || errors.Is(err, x11.ErrCaptureClosed) || errors.Is(err, supervise.ErrClosed)
}
