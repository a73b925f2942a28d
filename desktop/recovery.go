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

// Bounds of the recovery.
const (
	// firstPause and longPause bound the wait before a program is started again.
	firstPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
	// startLimit is the deadline of each attempt.
	startLimit = 30 * time.Second
	// calmAfter is how long a program must run for the next pause to be short again.
	calmAfter = 30 * time.Second
	// hangLimit is how long an X server may take to answer after a call has timed out.
	hangLimit = 10 * time.Second
	// checkEvery is the interval between checks of the window manager, the pointer and the keyboard.
	// The checks end checkUntil after the last call or the start.
	checkEvery = 5 * time.Second
	checkUntil = 30 * time.Second
	// keyboardPause is how long a program may leave the keyboard without keys before
	// the keyboard counts as broken.
	keyboardPause = time.Second
)

// part is a part of a desktop that can fail.
type part int

const (
	xserverPart part = iota
	managerPart
	busPart
	keyboardPart
	parts
)

// recovery replaces the parts of a desktop that die or hang.
type recovery struct {
	*lifecycle
	pauses   pauses
	failures [parts]*Failure // the first failure of each part that does not work
}

// run replaces parts until Close. If that fails for a part, it tries again, but it also looks
// at the other parts. No other goroutine changes a session's children after the start.
func (r *recovery) run() {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		s, err := r.current()
		if err != nil {
			return
		}
		select {
		case <-r.closing:
			return
		case <-s.conn.Done():
			r.replaceSession(s)
		case <-ended(s.xserver):
			r.replaceSession(s)
		case <-ended(s.wm):
			r.replaceWindowManager(s)
		case <-ended(s.bus):
			r.replaceBus(s)
		case <-r.suspicion:
			if errors.Is(s.probe(hangLimit, r.closing, s.conn.Sync), errHung) {
				r.replaceHung(s)
			}
		case <-check.C:
			if r.inUse() || r.failures[keyboardPart] != nil {
				r.check(s)
			}
		}
	}
}

// replaceHung replaces an X server that does not answer. It does nothing on an
// attached desktop, which could only connect to the same X server again.
func (r *recovery) replaceHung(s *session) {
	if s.xserver != nil {
		s.hung = true
		r.replaceSession(s)
	}
}

func (r *recovery) replaceWindowManager(s *session) {
	if s.serverGone() {
		r.replaceSession(s)
		return
	}
	s.setManaged(false)
	code, text := "window_manager_exited", "openbox exited"+exitText(s.wm)
	if s.wmHung {
		code, text, s.wmHung = "window_manager_hung", fmt.Sprintf("openbox did not answer for %v", hangLimit), false
	}
	r.repair(s, managerPart, code, text, func(ctx context.Context) error {
		err := r.startWindowManager(ctx, s)
		if err == nil {
			s.setManaged(true)
		}
		return err
	})
}

func (r *recovery) replaceBus(s *session) {
	r.repair(s, busPart, "dbus_exited", "dbus-daemon exited"+exitText(s.bus), func(ctx context.Context) error {
		bus, err := r.startBus(ctx, s)
		if err == nil {
			s.bus = bus
		}
		return err
	})
}

// ended returns c.Done(), or nil if c is nil.
func ended(c *supervise.Child) <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.Done()
}

func exitText(c *supervise.Child) string {
	return ": " + c.Exit().String() + tail(c)
}

// replaceSession makes a new session, with the same display number if possible. The
// windows of the old one are gone.
func (r *recovery) replaceSession(s *session) {
	r.mu.Lock()
	if r.session == s {
		r.session = nil
		r.setFailed()
	}
	r.mu.Unlock()
	code, text := "xserver_exited", "connection to the X server was lost"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch {
	case s.hung:
		code, text = "xserver_hung", fmt.Sprintf("Xvfb did not answer for %v", hangLimit)
		cancel() // without time to end on SIGTERM
		_ = s.xserver.Stop(ctx)
	case s.xserver != nil:
		// The connection may end before the X server does, or without it.
		select {
		case <-s.xserver.Done():
			text = "Xvfb exited" + exitText(s.xserver)
		case <-time.After(partingLimit):
		}
		_ = s.xserver.Stop(ctx)
	}
	s.close()
	s.stop()
	r.failures = [parts]*Failure{}
	start := func(ctx context.Context) error {
		next, err := r.newSession(ctx)
		if err == nil {
			r.install(next)
		}
		return err
	}
	for !r.repair(nil, xserverPart, code, text, start) && !r.isClosing() {
	}
}

var errHung = errors.New("the X server does not answer")

var errClosing = errors.New("the desktop is closing")

// serverGone reports whether the X server has ended, which ends its clients, too. It
// returns false if the X server hangs.
func (s *session) serverGone() bool {
	err := s.probe(time.Second, nil, s.conn.Sync)
	return err != nil && !errors.Is(err, errHung)
}

// probe calls question, which waits for the X server, and returns its error. It returns
// errHung after limit, x11.ErrConnClosed if the X server ends, and errClosing when closing is
// closed. In these cases question continues in a goroutine until the connection is closed.
func (s *session) probe(limit time.Duration, closing <-chan struct{}, question func() error) error {
	answer := make(chan error, 1)
	go func() { answer <- panics.Catch(s.log, "ask the X server", question) }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-answer:
		return err
	case <-s.conn.Done():
	case <-ended(s.xserver):
	case <-closing:
		return errClosing
	case <-timer.C:
		return errHung
	}
	return x11.ErrConnClosed
}

// repair calls start once, after a pause, to repair a part that has failed with code and text. It
// reports whether the part works. It ends when the desktop is closed.
func (r *recovery) repair(s *session, p part, code, text string, start func(context.Context) error) bool {
	if r.failures[p] == nil {
		r.failures[p] = r.fail(code, errors.New(text))
	}
	if !r.pauses.wait(r.closing) {
		return false
	}
	if err := r.attempt(s, start); err != nil {
		if !r.isClosing() {
			r.fail("start_failed", err)
		}
		return false
	}
	cause := r.failures[p]
	r.failures[p] = nil
	r.restarted(cause, r.failures == [parts]*Failure{})
	return true
}

// attempt calls start with a deadline. It closes the connection of s, which ends start, when
// the desktop is closed or the X server of s hangs.
func (r *recovery) attempt(s *session, start func(context.Context) error) error {
	ctx, cancel := endWith(context.Background(), r.closing)
	defer cancel()
	if s == nil {
		ctx, cancel := limitStart(ctx)
		defer cancel()
		return start(ctx)
	}
	defer context.AfterFunc(ctx, func() { _ = s.conn.Close() })()
	ctx, cancel = limitStart(ctx)
	defer cancel()
	var err error
	started := make(chan struct{})
	go func() {
		defer close(started)
		err = panics.Catch(s.log, "repair the desktop", func() error { return start(ctx) })
	}()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-started:
			return err
		case <-check.C:
			if errors.Is(s.probe(hangLimit, started, s.conn.Sync), errHung) && s.xserver != nil {
				s.hung = true // run replaces it when the connection has ended
				_ = s.conn.Close()
			}
		}
	}
}

func limitStart(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, startLimit, &DeadlineError{Op: "start", After: startLimit})
}

// restarted records that a part works again. whole says whether all parts work.
func (l *lifecycle) restarted(after *Failure, whole bool) {
	l.mu.Lock()
	l.restarts++
	if whole && l.state == StateFailed {
		l.state = StateActive
	}
	l.mu.Unlock()
	l.log.Info("desktop restarted", "after", after.Code, "took", time.Since(after.At).Round(time.Millisecond))
	l.events.Emit(Event{Type: EventRestarted, Failure: after})
}

// pauses are the waits between restarts: none at first, then longer ones. They start again
// at none after calmAfter without a restart.
type pauses struct {
	next time.Duration
	last time.Time
}

// wait returns false if the desktop is closed meanwhile.
func (p *pauses) wait(closing <-chan struct{}) bool {
	if time.Since(p.last) > calmAfter {
		p.next = 0
	}
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-closing:
		return false
	case <-timer.C:
	}
	p.next = min(max(2*p.next, firstPause), longPause)
	p.last = time.Now()
	return true
}

// inUse reports whether a call runs, or ran less than checkUntil ago, or the session is new.
func (r *recovery) inUse() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running > 0 || time.Since(r.usedAt) < checkUntil
}

// check replaces a window manager that does not answer, and restores the mapping of the pointer's
// buttons and a keyboard that cannot be used. It does nothing on an attached desktop.
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
	r.restorePointer(s)
	missing := ""
	if r.failures[keyboardPart] == nil {
		if r.checkKeyboard(s) == "" || !r.rest(s, keyboardPause) {
			return
		}
		if missing = r.checkKeyboard(s); missing == "" {
			return
		}
	}
	r.repair(s, keyboardPart, "keyboard_broken", "the keyboard has no "+missing, func(context.Context) error {
		return s.probe(hangLimit, r.closing, s.input.Keyboard.Restore)
	})
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

// restorePointer restores the mapping of the pointer's buttons and positions if a program has changed it.
// The next check tries again after an error.
func (r *recovery) restorePointer(s *session) {
	err := s.probe(hangLimit, r.closing, func() error {
		restored, err := s.input.Pointer.RestoreMapping()
		if restored {
			r.log.Info("mapping of the pointer restored")
		}
		return err
	})
	if err != nil {
		r.log.Debug("mapping of the pointer not restored", "error", err)
	}
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
