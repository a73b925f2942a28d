package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jezek/xgb/xproto"
	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/internal/x11/quiesce"
	"github.com/deskhand/deskhand/internal/x11/request"
)

// ErrNoWindow is returned if no managed window has the number, or none is active.
var ErrNoWindow = errors.New("no such window")

// WindowInfo describes a window that the window manager manages.
type WindowInfo struct {
	ID Window
	// The texts have at most 256 characters, and no control characters.
	Title    string
	Class    string // second part of WM_CLASS: "XTerm"
	Instance string // first part of WM_CLASS: "xterm"
	PID      int    // zero: unknown
	// The content, without decoration, in root coordinates and pixels.
	X, Y, Width, Height int
	// The same with decoration.
	FrameX, FrameY, FrameWidth, FrameHeight int

	Active    bool
	Minimised bool
	Maximised bool // in both directions
	Dialog    bool
}

// Windows lists windows, and acts on them through the window manager (EWMH 1.5, ICCCM 4).
// It lives as long as its connection.
type Windows struct {
	*quiesce.Manager
	c       *Conn
	atoms   windowAtoms
	idMask  uint32                // the part of a window's number that its client chose
	news    *queue[xproto.Window] // since the last comparison: destroyed windows, 0 for other changes
	waiters atomic.Int32
	lists   *semaphore.Weighted               // of one: a forged list costs much
	watcher atomic.Pointer[func(WindowEvent)] // of Watch; nil: none

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

// windowAtoms are names from EWMH and ICCCM.
type windowAtoms struct {
	list, active, check, extents    xproto.Atom
	netName, netState, wmState      xproto.Atom
	hidden, maxVert, maxHorz        xproto.Atom
	utf8, visible, compound         xproto.Atom
	moveResize, close, iconify, pid xproto.Atom
	kind, splash, dialog            xproto.Atom
}

// NewWindows begins to follow the windows. A window manager may start later; see
// WaitReady.
func (c *Conn) NewWindows() (*Windows, error) {
	w := &Windows{c: c, idMask: xproto.Setup(c.x).ResourceIdMask, changed: make(chan struct{}), lists: semaphore.NewWeighted(1)}
	w.news = newQueue[xproto.Window](maxNews)
	var err error
	if w.Manager, err = quiesce.NewManager(c.quiescence()); err != nil {
		return nil, fmt.Errorf("open windows: %w", err)
	}
	a := &w.atoms
	if err := request.Atoms(c.x, map[string]*xproto.Atom{
		"_NET_CLIENT_LIST": &a.list, "_NET_ACTIVE_WINDOW": &a.active, "_NET_SUPPORTING_WM_CHECK": &a.check,
		"_NET_FRAME_EXTENTS": &a.extents, "_NET_WM_NAME": &a.netName, "_NET_WM_STATE": &a.netState, "WM_STATE": &a.wmState,
		"_NET_WM_STATE_HIDDEN": &a.hidden, "_NET_WM_STATE_MAXIMIZED_VERT": &a.maxVert,
		"_NET_WM_STATE_MAXIMIZED_HORZ": &a.maxHorz, "UTF8_STRING": &a.utf8, "_NET_WM_VISIBLE_NAME": &a.visible,
		"COMPOUND_TEXT": &a.compound, "_NET_MOVERESIZE_WINDOW": &a.moveResize, "_NET_CLOSE_WINDOW": &a.close,
		"WM_CHANGE_STATE": &a.iconify, "_NET_WM_PID": &a.pid,
		"_NET_WM_WINDOW_TYPE": &a.kind, "_NET_WM_WINDOW_TYPE_SPLASH": &a.splash,
		"_NET_WM_WINDOW_TYPE_DIALOG": &a.dialog,
	}); err != nil {
		return nil, fmt.Errorf("open windows: %w", err)
	}
	c.handle(w.receive)
	if err := c.selectRoot(xproto.EventMaskPropertyChange); err != nil {
		return nil, fmt.Errorf("open windows: %w", err)
	}
	w.news.push(0)
	go w.follow()
	return w, nil
}

// List describes the managed windows, at most the first 512, in the order in which they were
// opened. Up to 64 windows take two round trips. It leaves out a window that is destroyed
// meanwhile. Callers take turns: ctx ends the wait for a turn, but not a request to the
// server.
func (w *Windows) List(ctx context.Context) ([]WindowInfo, error) {
	if err := w.lists.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("list windows: %w", err)
	}
	defer w.lists.Release(1)
	ids, active, err := w.rootState()
	if err != nil {
		return nil, fmt.Errorf("list windows: %w", err)
	}
	infos, err := w.describe(ctx, ids, active)
	if err != nil {
		return nil, fmt.Errorf("list windows: %w", err)
	}
	return infos, nil
}

// Get describes a window. It returns ErrNoWindow for windows that are not managed, such as
// menus.
func (w *Windows) Get(id Window) (WindowInfo, error) {
	ids, active, err := w.rootState()
	if err != nil {
		return WindowInfo{}, fmt.Errorf("window %d: %w", id, err)
	}
	if !slices.Contains(ids, id) {
		return WindowInfo{}, fmt.Errorf("window %d: %w", id, ErrNoWindow)
	}
	return w.one(id, active)
}

// Active describes the window that has the focus, or returns ErrNoWindow.
func (w *Windows) Active() (WindowInfo, error) {
	_, active, err := w.rootState()
	if err != nil {
		return WindowInfo{}, fmt.Errorf("active window: %w", err)
	}
	if active == 0 {
		return WindowInfo{}, fmt.Errorf("active window: %w", ErrNoWindow)
	}
	return w.one(active, active)
}

func (w *Windows) one(id, active xproto.Window) (WindowInfo, error) {
	infos, err := w.describeBatch([]xproto.Window{id}, active)
	if err != nil {
		return WindowInfo{}, fmt.Errorf("window %d: %w", id, err)
	}
	if len(infos) == 0 {
		return WindowInfo{}, fmt.Errorf("window %d: %w", id, ErrNoWindow)
	}
	return infos[0], nil
}
