package quiesce

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/res"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

const (
	frameDepth = 3  // bounds the search for an application's window in a frame
	maxDepth   = 32 // bounds walks between a window and the root
)

// tree answers questions about windows and the applications that made them.
type tree struct {
	*Display
	names struct {
		protocols, ping, pid, machine, state, wake, clipboard, clients, active, takeFocus xproto.Atom
	}
	path atomic.Pointer[[]xproto.Window] // from a child of the root to the last window that managed found
}

func newTree(d *Display) (*tree, error) {
	t := &tree{Display: d}
	err := request.Atoms(d.X, map[string]*xproto.Atom{
		"WM_PROTOCOLS": &t.names.protocols, "_NET_WM_PING": &t.names.ping, "_NET_WM_PID": &t.names.pid,
		"WM_CLIENT_MACHINE": &t.names.machine, "WM_STATE": &t.names.state, "_DESKHAND_KEYCODES": &t.names.wake,
		"CLIPBOARD": &t.names.clipboard, "_NET_CLIENT_LIST": &t.names.clients, "_NET_ACTIVE_WINDOW": &t.names.active,
		"WM_TAKE_FOCUS": &t.names.takeFocus,
	})
	return t, err
}

// application returns the window with the protocols of win's application, win or an ancestor
// (ICCCM, section 4.1.2.7), and whether the application answers pings. ok is false if win
// is gone.
func (t *tree) application(win xproto.Window) (top xproto.Window, pings, ok bool) {
	for at, depth := win, 0; depth < maxDepth && at != t.Root && at != 0; depth++ {
		property := xproto.GetProperty(t.X, false, at, t.names.protocols, xproto.AtomAtom, 0, 64)
		parent := xproto.QueryTree(t.X, at)
		p, err := property.Reply()
		up, uperr := parent.Reply()
		if err != nil || uperr != nil {
			return 0, false, at != win
		}
		if protocols := request.Words(p); len(protocols) > 0 {
			return at, slices.Contains(protocols, uint32(t.names.ping)), true
		}
		at = up.Parent
	}
	return win, false, true
}

// takesFocus reports whether the application of a window takes the focus itself when the
// window manager offers it (ICCCM, section 4.1.7). Without pings, it is one of Java.
func (t *tree) takesFocus(top xproto.Window) bool {
	p, err := request.Property(t.X, top, t.names.protocols, 64).Reply()
	return err == nil && slices.Contains(request.Words(p), uint32(t.names.takeFocus))
}

// process returns the process of a window's client on this machine, 0 if unknown. top
// is the window with the properties of win's application.
func (t *tree) process(win, top xproto.Window) int {
	if t.ClientPIDs {
		// X-Resource 1.2, XResQueryClientIds.
		spec := res.ClientIdSpec{Client: uint32(win), Mask: res.ClientIdMaskLocalClientPID}
		r, err := res.QueryClientIds(t.X, 1, []res.ClientIdSpec{spec}).Reply()
		if err == nil {
			for _, id := range r.Ids {
				if id.Spec.Mask&res.ClientIdMaskLocalClientPID != 0 && len(id.Value) > 0 && id.Value[0] != 0 {
					return int(id.Value[0])
				}
			}
		}
	}
	pid := xproto.GetProperty(t.X, false, top, t.names.pid, xproto.AtomCardinal, 0, 1)
	machine := request.Property(t.X, top, t.names.machine, 64)
	p, err := pid.Reply()
	m, merr := machine.Reply()
	host, _ := os.Hostname()
	if err != nil || merr != nil || len(p.Value) != 4 || host == "" || !strings.EqualFold(string(m.Value), host) {
		return 0
	}
	return int(xgb.Get32(p.Value))
}

// wake sends an event of an unknown type to the client of a window, after all other events.
func (t *tree) wake(win xproto.Window) {
	xproto.SendEvent(t.X, false, win, xproto.EventMaskNoEvent, request.Message(win, t.names.wake))
}

// wantsKeys reports whether a program has asked for the keys of a window, or of the window
// inside it that the pointer is in. It returns true if the window is gone, and for a window
// that is not managed, such as the one that has the focus when no other has it.
func (t *tree) wantsKeys(win xproto.Window) (bool, error) {
	for depth := range maxDepth {
		events, pointer := xproto.GetWindowAttributes(t.X, win), xproto.QueryPointer(t.X, win)
		e, err := events.Reply()
		p, perr := pointer.Reply()
		var gone xproto.WindowError
		switch err := errors.Join(err, perr); {
		case errors.As(err, &gone):
			return true, nil
		case err != nil:
			return false, request.Wrap("read selected events", err)
		case e.AllEventMasks&xproto.EventMaskKeyPress != 0, depth == 0 && e.OverrideRedirect:
			return true, nil
		case p.Child == 0:
			return false, nil
		}
		win = p.Child
	}
	return false, nil
}

// selectionOwners returns the windows that own the selections, each once.
func (t *tree) selectionOwners() (owners []xproto.Window, err error) {
	asked := [...]xproto.GetSelectionOwnerCookie{
		xproto.GetSelectionOwner(t.X, t.names.clipboard),
		xproto.GetSelectionOwner(t.X, xproto.AtomPrimary),
	}
	for _, cookie := range asked {
		r, err := cookie.Reply()
		if err != nil {
			return nil, request.Wrap("ask for the owner of a selection", err)
		}
		if r.Owner != xproto.WindowNone && !slices.Contains(owners, r.Owner) {
			owners = append(owners, r.Owner)
		}
	}
	return owners, nil
}

// pointed returns the reply to QueryPointer on the root window, and the managed window under
// the pointer, or 0. It takes one round trip if the pointer is still in the same window.
func (t *tree) pointed() (r *xproto.QueryPointerReply, win xproto.Window, err error) {
	var root xproto.QueryPointerCookie
	asked := make(map[xproto.Window]probe, frameDepth)
	t.Batch(func() {
		root = xproto.QueryPointer(t.X, t.Root)
		if path := t.path.Load(); path != nil {
			for _, w := range *path {
				asked[w] = t.probe(w)
			}
		}
	})
	if r, err = root.Reply(); err != nil {
		return nil, 0, request.Wrap("query pointer", err)
	}
	if r.Child != 0 {
		win = t.managed(r.Child, asked)
	}
	return r, win, nil
}

// managed returns the window in a child of the root with WM_STATE (ICCCM, section 4.1.3.1),
// or that child. It follows the pointer, which mostly is in the window. asked has the
// requests that were sent before, and may be nil.
func (t *tree) managed(child xproto.Window, asked map[xproto.Window]probe) xproto.Window {
	var path []xproto.Window
	for at := child; at != 0 && len(path) < frameDepth; {
		path = append(path, at)
		p, ok := asked[at]
		if !ok {
			t.Batch(func() { p = t.probe(at) })
		}
		marked := hasState(p.state)
		r, err := p.pointer.Reply()
		if marked {
			t.path.Store(&path)
			return at
		}
		if err != nil {
			break
		}
		at = r.Child
	}
	return t.managedBelow(child)
}

// probe is the requests that managed needs of a window.
type probe struct {
	state   xproto.GetPropertyCookie
	pointer xproto.QueryPointerCookie
}

func (t *tree) probe(win xproto.Window) probe {
	return probe{t.askState(win), xproto.QueryPointer(t.X, win)}
}

// managedBelow searches all windows in a frame: the pointer may be on the decoration.
func (t *tree) managedBelow(child xproto.Window) xproto.Window {
	level := []xproto.Window{child}
	for range frameDepth {
		level = t.children(level...)
		if len(level) == 0 || len(level) > 64 {
			break // not a frame
		}
		if found := t.marked(level); len(found) > 0 {
			return found[0]
		}
	}
	return child
}

// children returns the children of all the windows.
func (t *tree) children(of ...xproto.Window) (all []xproto.Window) {
	trees := make([]xproto.QueryTreeCookie, len(of))
	t.Batch(func() {
		for i, w := range of {
			trees[i] = xproto.QueryTree(t.X, w)
		}
	})
	for _, tree := range trees {
		if t, err := tree.Reply(); err == nil {
			all = append(all, t.Children...)
		}
	}
	return all
}

// marked returns the windows that have WM_STATE.
func (t *tree) marked(windows []xproto.Window) (found []xproto.Window) {
	states := make([]xproto.GetPropertyCookie, len(windows))
	t.Batch(func() {
		for i, w := range windows {
			states[i] = t.askState(w)
		}
	})
	for i, state := range states { // all, so that no answer is left
		if hasState(state) {
			found = append(found, windows[i])
		}
	}
	return found
}

func (t *tree) askState(win xproto.Window) xproto.GetPropertyCookie {
	return request.Property(t.X, win, t.names.state, 1)
}

func hasState(cookie xproto.GetPropertyCookie) bool {
	p, err := cookie.Reply()
	return err == nil && p.Type != 0
}
