package quiesce

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Bounds of waiting for a window manager.
const (
	// focusLimit is how long keys wait for a window manager that does not answer.
	focusLimit = 3 * time.Second
	// hungLimit is how long they wait if it did not answer the last time either.
	hungLimit = 100 * time.Millisecond
	// askAgain is after how long it is asked once more: it may have been
	// replaced by one that never got the question.
	askAgain = 500 * time.Millisecond
	// focusRounds is how often it is asked whether the focus still moves.
	focusRounds = 5
	// maxSupported bounds what is read of _NET_SUPPORTED, in names.
	maxSupported = 1024
)

// errHung is returned if the window manager does not answer in time.
var errHung = errors.New("the window manager does not answer")

// Manager asks the window manager of a display whether it has handled what it was
// told. Its methods may be called from any goroutine.
type Manager struct {
	display *Display
	names   struct {
		supported, check, ask, extents, active xproto.Atom
	}
	acted    atomic.Bool // see Acted
	required atomic.Bool // see Require
	turn     sync.Mutex  // held by the caller that asks

	mu     sync.Mutex // guards what follows
	probe  xproto.Window
	answer chan struct{} // nil if no caller waits
}

// NewManager prepares the questions. A window manager may start later.
func NewManager(d *Display) (*Manager, error) {
	m := &Manager{display: d}
	err := request.Atoms(d.X, map[string]*xproto.Atom{
		"_NET_SUPPORTED": &m.names.supported, "_NET_SUPPORTING_WM_CHECK": &m.names.check,
		"_NET_REQUEST_FRAME_EXTENTS": &m.names.ask, "_NET_FRAME_EXTENTS": &m.names.extents,
		"_NET_ACTIVE_WINDOW": &m.names.active,
	})
	return m, err
}

// Event must be called with every event of the connection.
func (m *Manager) Event(ev xgb.Event) {
	e, ok := ev.(xproto.PropertyNotifyEvent)
	if !ok || e.Atom != m.names.extents {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Window == m.probe && m.answer != nil {
		close(m.answer)
		m.answer = nil
	}
}

// Acted notes that the window manager may still have to give a window the focus,
// because of a request to it or because a window has appeared. A Tracker that follows
// the Manager waits for that before keys.
func (m *Manager) Acted() { m.acted.Store(true) }

// Require tells whether there is a window manager that must answer. Without it, the
// properties of the root window tell, which any program can change.
func (m *Manager) Require(on bool) { m.required.Store(on) }

// Handled waits until the window manager has handled all earlier requests. A
// window manager handles them in order, so it is sent one more that it answers
// by setting a property (EWMH _NET_REQUEST_FRAME_EXTENTS). It reports false
// if there is no answer within limit.
func (m *Manager) Handled(ctx context.Context, limit time.Duration) (bool, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	answer := make(chan struct{})
	probe, err := m.expect(answer)
	if err != nil {
		return false, err
	}
	if err := request.TellManager(m.display.X, m.display.Root, probe, m.names.ask); err != nil {
		return false, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-answer:
		return true, nil
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.display.Done:
		return false, request.ErrConnClosed
	}
	// A late answer must not be taken for the answer to the next question.
	m.mu.Lock()
	m.probe, m.answer = 0, nil
	m.mu.Unlock()
	xproto.DestroyWindow(m.display.X, probe)
	return false, err
}

// expect has answer closed when the window manager sets the property on the returned
// window of ours.
func (m *Manager) expect(answer chan struct{}) (probe xproto.Window, err error) {
	m.mu.Lock()
	probe = m.probe
	m.mu.Unlock()
	if probe == 0 {
		if probe, err = request.HiddenWindow(m.display.X, m.display.Root, xproto.EventMaskPropertyChange); err != nil {
			return 0, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probe, m.answer = probe, answer
	return probe, nil
}

// Responds reports whether the window manager answers a question within limit. It
// returns true if there is no window manager to ask.
func (m *Manager) Responds(ctx context.Context, limit time.Duration) (bool, error) {
	deadline := time.Now().Add(limit)
	if there, err := m.present(); err != nil || !there {
		return err == nil, err
	}
	_, err := m.ask(ctx, deadline)
	if errors.Is(err, errHung) {
		return false, nil
	}
	return err == nil, err
}

// AwaitFocus waits until the window manager has given a new window the focus, or
// has decided not to. It returns nil if there is no window manager or if it does
// not answer in time.
//
// A window is listed before it gets the focus, and the window manager names it
// as active only when it has heard from the server that it has the focus: hence
// more than one question.
func (m *Manager) AwaitFocus(ctx context.Context, win xproto.Window) error {
	deadline := time.Now().Add(focusLimit)
	for range focusRounds {
		active, err := m.property(m.display.Root, m.names.active, 1).Reply()
		if err != nil {
			return request.Wrap("read the active window", err)
		}
		if xproto.Window(request.Word(active)) == win {
			return nil
		}
		if ok, err := m.Responds(ctx, time.Until(deadline)); err != nil || !ok {
			return err
		}
	}
	return nil
}

// ask waits until the window manager has handled all earlier requests. It reports
// false if there is no window manager any more, and returns errHung if the window
// manager does not answer before deadline.
func (m *Manager) ask(ctx context.Context, deadline time.Time) (bool, error) {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return false, errHung
		}
		if ok, err := m.Handled(ctx, min(left, askAgain)); ok || err != nil {
			return ok, err
		}
		if there, err := m.present(); err != nil || !there {
			return false, err
		}
	}
}

// present reports whether there is a window manager that Handled can ask: one that is
// required, or that lives and lists the question among what it supports (EWMH
// _NET_SUPPORTED).
func (m *Manager) present() (bool, error) {
	if m.required.Load() {
		return true, nil
	}
	supported := m.property(m.display.Root, m.names.supported, maxSupported)
	check := m.property(m.display.Root, m.names.check, 1)
	s, err := supported.Reply()
	if err != nil {
		return false, request.Wrap("ask what the window manager supports", err)
	}
	c, err := check.Reply()
	if err != nil {
		return false, request.Wrap("ask for the window manager", err)
	}
	child := request.Word(c)
	if child == 0 || !slices.Contains(request.Words(s), uint32(m.names.ask)) {
		return false, nil
	}
	// What a dead window manager left does not count.
	self, err := m.property(xproto.Window(child), m.names.check, 1).Reply()
	return err == nil && request.Word(self) == child, nil
}

func (m *Manager) property(win xproto.Window, name xproto.Atom, length uint32) xproto.GetPropertyCookie {
	return request.Property(m.display.X, win, name, length)
}
