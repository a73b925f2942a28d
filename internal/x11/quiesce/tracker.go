package quiesce

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Bounds of waiting for the applications that got the last clicks and keys.
const (
	// recent is the largest age of clicks and keys that Quiesce waits for.
	recent = time.Second
	// takeLimit is how long an application may take to read its input, or to answer a
	// ping.
	takeLimit = 2 * time.Second
	// workLimit is how long it may then take to sleep: on a busy machine, a program needs
	// that long to open a dialog.
	workLimit = time.Second
	// quietLimit is the limit for a program that did not sleep last time, and for a
	// browser: some never sleep.
	quietLimit = 300 * time.Millisecond
	// unresponsiveLimit is the limit for a window whose last wait has timed out.
	unresponsiveLimit = 20 * time.Millisecond
	// maxUnresponsive bounds the number of these windows.
	maxUnresponsive = 64
)

// Tracker records which windows got input, and waits for their programs.
type Tracker struct {
	display   *Display
	tree      *tree
	manager   *Manager    // nil: keys wait for no window manager
	clipboard Clipboard   // nil: there is none
	pongs     chan uint32 // tokens of answers
	token     uint32      // of the last ping

	withoutListener unresponsive // no program asked for their keys
	withoutAnswer   unresponsive // their programs did not handle input
	busy            unresponsive // their programs did not sleep

	pressed     int  // buttons that the window manager may not have handled
	managerHung bool // it did not answer the last question

	acted  []xproto.Window // got clicks, or keys that may do more than change a text
	latest time.Time       // when they got them
	served int             // number of requests that the clipboard had answered at the last wait
	typed  []xproto.Window // may still look up keycodes

	scene    scene  // after the last Quiesce
	children parent // the program that Quiesce waited for last

	focus   xproto.Window // the result of the last query by Unheard; 0: no window
	listens bool          // the program of focus answers pings
}

// New returns a Tracker.
func New(d *Display) (*Tracker, error) {
	tree, err := newTree(d)
	if err != nil {
		return nil, err
	}
	return &Tracker{display: d, tree: tree, pongs: make(chan uint32, 8), token: firstToken}, nil
}

// Event must be called with every event of the connection, which must select
// SubstructureNotify and StructureNotify on the root window: answers to pings have one of these
// masks (EWMH, _NET_WM_PING).
func (t *Tracker) Event(ev xgb.Event) {
	m, ok := ev.(xproto.ClientMessageEvent)
	if !ok || m.Type != t.tree.names.protocols || m.Format != 32 || m.Window != t.display.Root ||
		xproto.Atom(m.Data.Data32[0]) != t.tree.names.ping {
		return
	}
	select {
	case t.pongs <- m.Data.Data32[1]:
	default: // no ping waits
	}
}

// Pointed returns the reply to QueryPointer on the root window, and the window under the
// pointer that a window manager manages, else the child of the root, else 0.
func (t *Tracker) Pointed() (*xproto.QueryPointerReply, xproto.Window, error) {
	return t.tree.pointed()
}

// IsFamily reports whether the program of a window consists of several processes, as a
// browser does.
func (t *Tracker) IsFamily(child xproto.Window) bool {
	win := t.tree.managed(child, nil)
	top, pings, ok := t.tree.application(win)
	if !ok || !pings {
		return false
	}
	pid := t.tree.process(win, top)
	return pid > 0 && len(helpers(pid)) > 1
}

// Acted records that a window got a click, or keys that may do more than change a text.
func (t *Tracker) Acted(win xproto.Window) {
	t.latest = time.Now()
	if win > xproto.InputFocusPointerRoot && !slices.Contains(t.acted, win) {
		t.acted = append(t.acted, win)
	}
}

// Shown makes the next Quiesce wait for the program of a window, which may not be ready for input:
// it is new, or has only now begun to paste.
func (t *Tracker) Shown(win xproto.Window) {
	t.withoutAnswer.record(win, false)
	t.withoutListener.record(win, false)
	t.Acted(win)
}

// Quiesce waits until the programs that got the last clicks and keys have probably handled
// them, and then the window manager. A click may open a menu, a chord may open a dialog,
// and Return may close one: earlier input would go to another window. Quiesce does not
// wait for input of more than a second ago, and waits only briefly for a busy program. The
// input of a person needs no Quiesce.
//
// If a window has opened or closed, or the focus has moved, Quiesce also waits for the
// program of the window with the focus, which has that to handle.
func (t *Tracker) Quiesce(ctx context.Context) error {
	asked, err := t.AwaitPointer(ctx)
	if err != nil {
		return err
	}
	windows := t.acted
	t.acted = nil
	if time.Since(t.latest) > recent {
		windows = nil
	}
	if len(windows) == 0 && !asked {
		return nil
	}
	for round := range sceneRounds {
		if err := t.quiesceWindows(ctx, windows, round > 0); err != nil {
			return err
		}
		if !asked { // the programs may have sent requests to the window manager
			t.ManagerMayAct()
			if asked, err = t.AwaitPointer(ctx); err != nil || !asked {
				return err
			}
		}
		now, err := t.awaitFocus(ctx)
		if err != nil || now == t.scene {
			return err
		}
		if now, err = t.awaitTaken(ctx, now); err != nil {
			return err
		}
		t.scene, windows, asked = now, []xproto.Window{now.focus}, false
		if now.focus <= xproto.InputFocusPointerRoot {
			windows = nil
		}
	}
	return nil
}

// quiesceWindows waits for the applications of windows, and for what they paste. fresh means
// that the scene has changed.
func (t *Tracker) quiesceWindows(ctx context.Context, windows []xproto.Window, fresh bool) error {
	var apps []*process
	defer func() {
		for _, p := range apps {
			p.close()
		}
	}()
	for _, win := range windows {
		p, err := t.quiesceWindow(ctx, win, fresh)
		if p != nil {
			apps = append(apps, p)
		}
		if err != nil {
			return err
		}
	}
	if len(windows) == 0 || fresh {
		return nil
	}
	return t.quiescePaste(ctx, apps)
}

// quiesceWindow waits for the application of a window. It returns its process if the process
// sleeps in time.
func (t *Tracker) quiesceWindow(ctx context.Context, win xproto.Window, fresh bool) (asleep *process, err error) {
	win = t.tree.managed(win, nil)
	top, pings, ok := t.tree.application(win)
	if !ok {
		return nil, nil
	}
	var app *process
	var family []int // processes that must be idle together, of a browser
	if pid := t.tree.process(win, top); pid > 0 && pid != os.Getpid() {
		app = t.display.watch(pid)
		defer func() {
			if asleep == nil {
				app.close()
			}
		}()
	}
	work := func() []int {
		switch {
		case app == nil:
			return nil
		case len(family) > 1:
			return family
		}
		return append(childrenOf(app.pid), app.pid) // a terminal waits for its children
	}
	took, err := t.limited(ctx, top, takeLimit, work, func(ctx context.Context) error {
		switch {
		case pings:
			return t.ping(ctx, top)
		case app != nil:
			return app.waitRead(ctx)
		}
		return nil
	})
	if err != nil || !took || app == nil {
		return nil, err
	}
	limit := workLimit
	if pings {
		family = helpers(app.pid)
	}
	if len(family) > 1 || t.busy.has(top) {
		limit = quietLimit
	}
	err = withinWork(ctx, limit, work, func(ctx context.Context) error {
		if len(family) > 1 {
			return t.display.waitFamily(ctx, family, familyQuiet)
		}
		err := t.waitApplication(ctx, app, top, pings)
		switch {
		case err != nil:
			return err
		case !pings && t.tree.takesFocus(top):
			return t.display.waitFamily(ctx, []int{app.pid}, clickQuiet)
		case fresh:
			return t.display.waitFamily(ctx, []int{app.pid}, familyQuiet)
		}
		return nil
	})
	if ctx.Err() == nil {
		t.busy.record(top, err != nil && !errors.Is(err, fs.ErrNotExist))
	}
	if err == nil {
		return app, nil
	}
	return nil, t.fatal(ctx, top, err)
}

// waitApplication waits until an application sleeps, because it may not answer pings, or may
// wait for other programs: GTK reads the clipboard before it shows a menu.
func (t *Tracker) waitApplication(ctx context.Context, app *process, top xproto.Window, pings bool) error {
	before := t.children
	if before.pid != app.pid {
		before = parentOf(app.pid)
		t.children = before
	}
	ended := false // a child has, or is about to
	err := t.display.poll(ctx, func() (_ bool, err error) {
		if pings { // which have woken it
			_, err = app.waitAsleep(ctx, nil)
		} else {
			err = app.waitWoken(ctx, func() { t.tree.wake(top) })
		}
		if _, _, shown := t.tree.application(top); !shown {
			t.children = parentOf(app.pid)
			return true, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			ended = true
			return false, nil
		}
		if err != nil {
			return true, err
		}
		if t.children.terminal {
			if err := t.display.passTerminals(ctx); err != nil {
				return false, err
			}
		}
		t.children = parentOf(app.pid)
		ended = ended || t.children.ends
		return !t.children.ends && !t.children.runs, nil
	})
	if err != nil || !ended && !t.children.lost(before) && !t.children.opened(t.latest) {
		return err
	}
	// The window or tab of a terminal closes when the program in the terminal ends. What is typed
	// into a new tab is lost until the terminal knows that its program has started.
	return t.display.waitFamily(ctx, append(slices.Clone(t.children.children), app.pid), clickQuiet)
}

// limited calls f with a context that ends after limit, or earlier if the last wait for the
// window has timed out, or later if the processes wait for a processor. It reports whether f returned nil. The error is that of fatal.
func (t *Tracker) limited(ctx context.Context, win xproto.Window, limit time.Duration, pids func() []int, f func(context.Context) error) (bool, error) {
	err := withinWork(ctx, t.withoutAnswer.limit(win, limit), pids, f)
	if ctx.Err() == nil {
		t.withoutAnswer.record(win, err != nil)
	}
	return err == nil, t.fatal(ctx, win, err)
}

// fatal returns the error of ctx or of the connection. After another error, which it logs,
// the caller sends its input anyway, and fatal returns nil.
func (t *Tracker) fatal(ctx context.Context, win xproto.Window, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, request.ErrConnClosed) {
		return err
	}
	t.display.Log.Debug("input goes on before an application has handled the input before", "window", uint32(win), "error", err)
	return nil
}

// unresponsive is the set of windows whose last wait has timed out.
type unresponsive struct {
	mu      sync.Mutex // guards the fields below
	windows map[xproto.Window]struct{}
}

func (u *unresponsive) has(win xproto.Window) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.windows[win]
	return ok
}

// limit returns how long a window is waited for.
func (u *unresponsive) limit(win xproto.Window, first time.Duration) time.Duration {
	if u.has(win) {
		return unresponsiveLimit
	}
	return first
}

func (u *unresponsive) record(win xproto.Window, ranOut bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !ranOut {
		delete(u.windows, win)
		return
	}
	if u.windows == nil || len(u.windows) >= maxUnresponsive {
		u.windows = make(map[xproto.Window]struct{})
	}
	u.windows[win] = struct{}{}
}
