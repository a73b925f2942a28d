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
	// hungLimit is how long keys wait if it did not answer the last probe.
	hungLimit = 100 * time.Millisecond
	// askAgain is the interval between probes: a new window manager may not have received
	// the previous one.
	askAgain = 500 * time.Millisecond
	// focusRounds bounds the checks whether the focus still moves.
	focusRounds = 5
	// maxSupported bounds the names that are read of _NET_SUPPORTED.
	maxSupported = 1024
)

// errHung is returned if the window manager does not answer in time.
var errHung = errors.New("the window manager does not answer")

// Manager asks the window manager of a display whether it has handled earlier requests. Its
// methods may be called from any goroutine.
type Manager struct {
	display *Display
	names   struct {
		supported, check, ask, extents, active xproto.Atom
	}
	acted    atomic.Bool // see Acted
	required atomic.Bool // see Require
	turn     sync.Mutex  // held by the caller that asks

	mu     sync.Mutex // guards the fields below
	probe  xproto.Window
	answer chan struct{} // nil if no caller waits
}

// NewManager prepares the probes. A window manager may start later.
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

// Acted records that the window manager may move the focus, because of a request or a new
// window. A Tracker that follows the Manager waits for that before keys.
func (m *Manager) Acted() { m.acted.Store(true) }

// Require sets whether there is a window manager that must answer. Without it, the properties
// of the root window show whether there is one. Any program can change these.
func (m *Manager) Require(on bool) { m.required.Store(on) }

// Handled waits until the window manager has handled all earlier requests, which it handles
// in order: it answers one more by setting a property (EWMH _NET_REQUEST_FRAME_EXTENTS).
// Handled returns false if there is no answer within limit.
func (m *Manager) Handled(ctx context.Context, limit time.Duration) (bool, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	answer := make(chan struct{})
	probe, err := m.expect(answer)
	if err != nil {
		return false, err
	}
	if err := request.SendToManager(m.display.X, m.display.Root, probe, m.names.ask); err != nil {
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
	// The next probe uses another window, so that a late answer does not count for it.
	m.mu.Lock()
	m.probe, m.answer = 0, nil
	m.mu.Unlock()
	xproto.DestroyWindow(m.display.X, probe)
	return false, err
}

// expect returns a window for the next probe. answer is closed when the window manager sets
// the property on that window.
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

// Responds reports whether the window manager answers a question within limit. It returns
// true if there is no window manager.
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

// AwaitFocus waits until the window manager has given a new window the focus, or has decided
// not to. It returns nil if there is no window manager or if it does not answer in time.
// It asks more than once, because the window manager lists a window before it gives it the
// focus, and names it as active after an event about that.
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

// ask is like Handled but returns false if there is no window manager, and errHung if the
// window manager does not answer before deadline.
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

// present reports whether there is a window manager that answers questions: it is required,
// or lives and lists the question in _NET_SUPPORTED (EWMH).
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
	child := request.Window(m.display.X, c)
	if child == 0 || !slices.Contains(request.Words(s), uint32(m.names.ask)) {
		return false, nil
	}
	// A dead window manager leaves the properties of the root window.
	self, err := m.property(child, m.names.check, 1).Reply()
	return err == nil && request.Window(m.display.X, self) == child, nil
}

func (m *Manager) property(win xproto.Window, name xproto.Atom, length uint32) xproto.GetPropertyCookie {
	return request.Property(m.display.X, win, name, length)
}
