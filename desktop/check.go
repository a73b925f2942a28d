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
	if err := s.probe(hangLimit, r.closing, s.conn.Sync); err != nil {
		select {
		case <-r.suspicion: // a call has timed out, too
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
		cancel() // without time to end on SIGTERM
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
			return s.probe(hangLimit, r.closing, s.input.Keyboard.Restore)
		})
	}
}

// managerResponds reports whether the window manager answers within hangLimit. It
// also returns true if it cannot probe, because the window manager or the X server has
// ended or the desktop is being closed. Other code handles these.
func (r *recovery) managerResponds(s *session) bool {
	ctx, cancel := endWith(context.Background(), r.closing, s.conn.Done(), ended(s.wm))
	defer cancel()
	ok := false
	err := s.probe(2*hangLimit, r.closing, func() (err error) {
		ok, err = s.windows.Responds(ctx, hangLimit)
		return err
	})
	return err != nil || ok
}

// endWith returns a context that also ends when one of the channels is closed, or cancel
// is called.
func endWith(ctx context.Context, ends ...<-chan struct{}) (_ context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(ctx)
	for _, end := range ends {
		go func() {
			select {
			case <-end:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// rest waits for t. It returns false if the desktop or the session ends meanwhile.
func (r *recovery) rest(s *session, t time.Duration) bool {
	ctx, cancel := endWith(context.Background(), r.closing, s.conn.Done(), ended(s.wm))
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, t)
	defer cancel()
	<-ctx.Done()
	return errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// checkKeyboard returns a description of a missing key, or "" if no key is missing or the
// X server does not answer.
func (r *recovery) checkKeyboard(s *session) string {
	var missing string // the probe may still set it after an error
	err := s.probe(hangLimit, r.closing, func() (err error) {
		missing, err = s.input.Keyboard.Check()
		return err
	})
	if err != nil {
		return ""
	}
	return missing
}
