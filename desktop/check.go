package desktop

import (
	"context"
	"errors"
	"time"
)

// check replaces a window manager that does not answer, and restores a keyboard
// that cannot be used. It does nothing on an attached desktop.
func (r *recovery) check(s *session) {
	if s.wm == nil {
		return
	}
	if err := s.ask(hangLimit, r.closing, s.conn.Sync); err != nil {
		select {
		case <-r.suspicion: // a call was not answered either
			if errors.Is(err, errHung) {
				r.replaceHung(s)
			}
		default:
		}
		return
	}
	if !r.managerResponds(s) {
		s.wmHung = true
		killed, cancel := context.WithCancel(context.Background())
		cancel() // it would not hear SIGTERM
		_ = s.wm.Stop(killed)
		r.replaceWindowManager(s)
		return
	}
	missing := r.checkKeyboard(s)
	if missing == "" || !r.rest(s, keyboardPause) {
		return
	}
	if missing = r.checkKeyboard(s); missing != "" {
		r.repair(s, "keyboard_broken", "the keyboard has no "+missing, func(context.Context) error {
			return s.ask(hangLimit, r.closing, s.input.Keyboard.Restore)
		})
	}
}

// managerResponds reports whether the window manager answers within hangLimit. It
// also returns true if the window manager, the X server or the desktop does not let
// it ask, which other code handles.
func (r *recovery) managerResponds(s *session) bool {
	ctx, stop := s.bounded(r.closing)
	defer stop()
	answers := make(chan bool, 1)
	err := s.ask(2*hangLimit, r.closing, func() error {
		ok, err := s.windows.Responds(ctx, hangLimit)
		answers <- ok
		return err
	})
	return err != nil || <-answers
}

// bounded returns a context that ends with the desktop, the X server or the window manager.
func (s *session) bounded(closing <-chan struct{}) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-closing:
		case <-s.conn.Done():
		case <-ended(s.wm):
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, func() { cancel(); <-over }
}

// rest waits for t. It returns false if the desktop or the session ends meanwhile.
func (r *recovery) rest(s *session, t time.Duration) bool {
	ctx, stop := s.bounded(r.closing)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, t)
	defer cancel()
	<-ctx.Done()
	return errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// checkKeyboard returns a description of the missing key, or "". It returns "" too
// if the X server does not answer.
func (r *recovery) checkKeyboard(s *session) string {
	missing := make(chan string, 1)
	err := s.ask(hangLimit, r.closing, func() error {
		m, err := s.input.Keyboard.Check()
		missing <- m
		return err
	})
	if err != nil {
		return ""
	}
	return <-missing
}
