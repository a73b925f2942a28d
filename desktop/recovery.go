package desktop

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// Bounds of the wait before a program that died is started once more.
const (
	firstPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
	// startLimit is the deadline of each attempt.
	startLimit = 20 * time.Second
	// calmAfter is how long a program has to live for its death to count as
	// the first one.
	calmAfter = 30 * time.Second
	// hangLimit is how long an X server may leave a question unanswered, after
	// a call to it was not done in time, before it is replaced.
	hangLimit = 10 * time.Second
)

// recover replaces what dies, until Close. It alone changes a session's
// children after the start.
func (d *Desktop) recover() {
	var pause pauses
	for {
		s, err := d.current()
		if err != nil {
			return
		}
		select {
		case <-d.closing:
			return
		case <-s.conn.Done():
			d.replaceSession(s, &pause)
		case <-ended(s.xserver):
			d.replaceSession(s, &pause)
		case <-ended(s.wm):
			if s.serverGone() {
				d.replaceSession(s, &pause)
				continue
			}
			s.wmReady.Store(false)
			d.repair(s, "window_manager_exited", "openbox exited"+exitText(s.wm), &pause, func(ctx context.Context) error {
				if err := d.startWindowManager(ctx, s); err != nil {
					return err
				}
				s.wmReady.Store(true)
				return nil
			})
		case <-d.suspicion:
			if !s.answers(hangLimit, d.closing) {
				d.log.Debug("X server hangs")
				s.abandon()
			}
		case <-ended(s.bus):
			d.repair(s, "dbus_exited", "dbus-daemon exited"+exitText(s.bus), &pause, func(ctx context.Context) error {
				bus, err := d.startBus(ctx)
				if err == nil {
					s.bus = bus
				}
				return err
			})
		}
	}
}

// ended is closed when a child has exited; it never is for nil.
func ended(c *supervise.Child) <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.Done()
}

// exitText tells how a child ended.
func exitText(c *supervise.Child) string {
	return ": " + c.Exit().String() + tail(c)
}

// replaceSession makes a new session on the same display number. The windows
// of the old one are gone with its X server.
func (d *Desktop) replaceSession(s *session, pause *pauses) {
	d.mu.Lock()
	if d.session == s {
		d.session = nil
	}
	d.mu.Unlock()
	text := "connection to the X server was lost"
	if s.xserver != nil {
		// The connection's end may be seen before the exit, or the X server
		// may have dropped us alone: either way this life of it is over.
		_ = s.xserver.Stop(context.Background())
		text = "Xvfb exited" + exitText(s.xserver)
	}
	s.close()
	s.stop()
	d.repair(nil, "xserver_exited", text, pause, func(ctx context.Context) error {
		next, err := d.newSession(ctx)
		if err == nil {
			d.install(next)
		}
		return err
	})
}

// serverGone says whether it is the X server that died, of which its clients'
// ends are often the first that is seen. One that only hangs is there.
func (s *session) serverGone() bool {
	_ = s.answers(time.Second, nil) // what follows tells
	select {
	case <-ended(s.xserver):
		return true
	default:
		return !s.connected()
	}
}

// answers says whether the X server does, within limit. It also returns true
// when that does not matter any more.
func (s *session) answers(limit time.Duration, closing <-chan struct{}) bool {
	answer := make(chan error, 1)
	go func() { answer <- s.conn.Sync() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-answer:
	case <-s.conn.Done():
	case <-ended(s.xserver):
	case <-closing:
	case <-timer.C:
		return false
	}
	return true
}

// abandon gives up an X server that hangs, so that it is replaced as one that
// died; of one that is not ours only the connection ends.
func (s *session) abandon() {
	if s.xserver != nil {
		_ = s.xserver.Signal(syscall.SIGKILL)
		return
	}
	_ = s.conn.Close()
}

// repair calls start until it succeeds or the desktop is closed, or until the X
// server of s dies, so that there is nothing left to repair there.
func (d *Desktop) repair(s *session, code, text string, pause *pauses, start func(context.Context) error) {
	failure := d.fail(code, errors.New(text))
	for {
		if !pause.wait(d.closing) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		stop := make(chan struct{})
		go func() {
			select {
			case <-d.closing:
				cancel()
			case <-stop:
			}
		}()
		err := start(ctx)
		close(stop)
		cancel()
		if err == nil {
			d.restarted(failure)
			return
		}
		failure = d.fail("start_failed", err)
		if s != nil && s.serverGone() {
			return
		}
	}
}

func (d *Desktop) restarted(after *Failure) {
	d.mu.Lock()
	d.restarts++
	if d.state == StateFailed {
		d.state = StateActive
	}
	d.mu.Unlock()
	d.events.emit(Event{Type: EventRestarted, Failure: after})
}

// pauses are the waits between restarts: none before the first, then longer
// and longer ones, until things have been calm for a while.
type pauses struct {
	next time.Duration
	last time.Time
}

// wait returns false when the desktop closes meanwhile.
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
