package x11

import (
	"sync"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// frameDepth is how deep below a child of the root the application's window is
// looked for: frames are one or two deep.
const frameDepth = 3

// frames remembers which window a frame is around, until a child of the root is
// mapped, unmapped, destroyed or reparented: only then can that change.
type frames struct {
	mu     sync.Mutex // guards what follows
	inside map[xproto.Window]xproto.Window
	epoch  uint64 // grows when inside is emptied
}

// event runs on the connection's event goroutine.
func (f *frames) event(ev xgb.Event, root xproto.Window) {
	var of xproto.Window
	switch e := ev.(type) {
	case xproto.MapNotifyEvent:
		of = e.Event
	case xproto.UnmapNotifyEvent:
		of = e.Event
	case xproto.DestroyNotifyEvent:
		of = e.Event
	case xproto.ReparentNotifyEvent:
		of = e.Event
	default:
		return
	}
	if of != root {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.inside)
	f.epoch++
}

func (f *frames) look(frame xproto.Window) (win xproto.Window, epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inside[frame], f.epoch
}

// keep notes what was found out since the epoch began.
func (f *frames) keep(frame, win xproto.Window, epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch != epoch {
		return
	}
	if f.inside == nil {
		f.inside = make(map[xproto.Window]xproto.Window)
	}
	f.inside[frame] = win
}

// managed is the window below a child of the root that a window manager has
// marked with WM_STATE (ICCCM, section 4.1.3.1), or that child.
func (in *Input) managed(child xproto.Window) xproto.Window {
	win, epoch := in.frames.look(child)
	if win != 0 {
		return win
	}
	// Mostly it is on the way down to the pointer.
	parent := xproto.Window(0)
	for at, depth := child, 0; at != 0 && depth < frameDepth; depth++ {
		state := in.askState(at)
		pointer := xproto.QueryPointer(in.c.x, at)
		marked := hasState(state)
		r, err := pointer.Reply()
		if marked {
			if parent == 0 || len(in.marked(in.children(parent))) == 1 { // not one of several tabs
				in.frames.keep(child, at, epoch)
			}
			return at
		}
		if err != nil {
			break
		}
		parent, at = at, r.Child
	}
	return in.managedBelow(child)
}

// managedBelow searches all that is inside a window: the pointer may be on the
// decoration.
func (in *Input) managedBelow(child xproto.Window) xproto.Window {
	level := []xproto.Window{child}
	for range frameDepth {
		level = in.children(level...)
		if len(level) == 0 || len(level) > 64 {
			break // not a frame
		}
		if found := in.marked(level); len(found) > 0 {
			return found[0]
		}
	}
	return child
}

// children are those of all the windows.
func (in *Input) children(of ...xproto.Window) (all []xproto.Window) {
	trees := make([]xproto.QueryTreeCookie, len(of))
	in.c.wire.cork()
	for i, w := range of {
		trees[i] = xproto.QueryTree(in.c.x, w)
	}
	_ = in.c.wire.uncork() // the answers tell
	for _, tree := range trees {
		if t, err := tree.Reply(); err == nil {
			all = append(all, t.Children...)
		}
	}
	return all
}

// marked are those of the windows that have WM_STATE.
func (in *Input) marked(windows []xproto.Window) (found []xproto.Window) {
	states := make([]xproto.GetPropertyCookie, len(windows))
	in.c.wire.cork()
	for i, w := range windows {
		states[i] = in.askState(w)
	}
	_ = in.c.wire.uncork()
	for i, state := range states { // all, so that no answer is left
		if hasState(state) {
			found = append(found, windows[i])
		}
	}
	return found
}

func (in *Input) askState(win xproto.Window) xproto.GetPropertyCookie {
	return xproto.GetProperty(in.c.x, false, win, in.names.state, xproto.GetPropertyTypeAny, 0, 1)
}

func hasState(cookie xproto.GetPropertyCookie) bool {
	p, err := cookie.Reply()
	return err == nil && p.Type != 0
}
