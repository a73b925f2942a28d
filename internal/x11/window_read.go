package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/res"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

const (
	maxListed   = 4096 // units that are read of the list
	maxWindows  = 512  // in the list, each counted once
	batch       = 64   // windows that are described with one wait for the server
	titleLength = 256  // characters of a title and of both parts of a class
	maxKinds    = 8    // types of a window that are read

	// The units of four bytes that are read of a title and a class. A character of a title
	// has at most one unit. The second part of a class comes after the whole first part.
	maxTitle = titleLength
	maxClass = 1024
)

// rootState reads the list of windows, of which it returns the first maxWindows, and the
// active window from the root window. It asks for the active window first: a window manager
// lists a window before it makes it active. It leaves out windows of this connection, see
// request.Window.
func (w *Windows) rootState() (ids []xproto.Window, active xproto.Window, err error) {
	w.c.wire.cork()
	act := w.property(w.c.root, w.atoms.active, 1)
	list := w.property(w.c.root, w.atoms.list, maxListed)
	if w.c.wire.uncork() != nil {
		return nil, 0, ErrConnClosed
	}
	r, err := list.Reply()
	if err != nil {
		return nil, 0, request.Wrap("read the client list", err)
	}
	for _, word := range request.Words(r) {
		if id := xproto.Window(word); len(ids) < maxWindows && !w.c.wire.owns(word) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if r, err = act.Reply(); err != nil {
		return nil, 0, request.Wrap("read the active window", err)
	}
	return ids, request.Window(w.c.x, r), nil
}

func (w *Windows) property(win xproto.Window, name xproto.Atom, length uint32) xproto.GetPropertyCookie {
	return request.Property(w.c.x, win, name, length)
}

// word reads a property of one 32-bit unit. It returns 0 if there is none.
func (w *Windows) word(win xproto.Window, name xproto.Atom) (uint32, error) {
	r, err := w.property(win, name, 1).Reply()
	if err != nil {
		return 0, err
	}
	return request.Word(r), nil
}

// window reads a property that names a window. It returns 0 if there is none.
func (w *Windows) window(win xproto.Window, name xproto.Atom) (xproto.Window, error) {
	r, err := w.property(win, name, 1).Reply()
	if err != nil {
		return 0, err
	}
	return request.Window(w.c.x, r), nil
}

// IsSplash reports whether a window is a splash screen (EWMH _NET_WM_WINDOW_TYPE).
func (w *Windows) IsSplash(id Window) bool {
	r, err := w.property(id, w.atoms.kind, maxKinds).Reply()
	return err == nil && slices.Contains(request.Words(r), uint32(w.atoms.splash))
}

// activeIsDialog reports whether the active window is a dialog (EWMH _NET_WM_WINDOW_TYPE).
func (w *Windows) activeIsDialog() bool {
	active, err := w.window(w.c.root, w.atoms.active)
	if err != nil || active == 0 {
		return false
	}
	r, err := w.property(active, w.atoms.kind, maxKinds).Reply()
	return err == nil && slices.Contains(request.Words(r), uint32(w.atoms.dialog))
}

// questions are the requests about one window.
type questions struct {
	geometry                                   xproto.GetGeometryCookie
	position                                   xproto.TranslateCoordinatesCookie
	netName, name, class, extents, state, kind xproto.GetPropertyCookie
}

// describe describes windows in batches, between which it checks ctx.
func (w *Windows) describe(ctx context.Context, ids []xproto.Window, active xproto.Window) ([]WindowInfo, error) {
	var infos []WindowInfo
	for part := range slices.Chunk(ids, batch) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		described, err := w.describeBatch(part, active)
		if err != nil {
			return nil, err
		}
		infos = append(infos, described...)
	}
	return infos, nil
}

// describeBatch sends the requests about all windows, then reads the answers: it waits for
// the server once.
func (w *Windows) describeBatch(ids []xproto.Window, active xproto.Window) ([]WindowInfo, error) {
	asked := make([]questions, len(ids))
	w.c.wire.cork()
	for i, id := range ids {
		asked[i] = questions{
			geometry: xproto.GetGeometry(w.c.x, xproto.Drawable(id)),
			position: xproto.TranslateCoordinates(w.c.x, id, w.c.root, 0, 0),
			netName:  w.property(id, w.atoms.netName, maxTitle),
			name:     w.property(id, xproto.AtomWmName, maxTitle),
			class:    w.property(id, xproto.AtomWmClass, maxClass),
			extents:  w.property(id, w.atoms.extents, 4),
			state:    w.property(id, w.atoms.netState, 32),
			kind:     w.property(id, w.atoms.kind, maxKinds),
		}
	}
	var pids res.QueryClientIdsCookie
	if w.c.ext.res {
		specs := make([]res.ClientIdSpec, len(ids))
		for i, id := range ids {
			specs[i] = res.ClientIdSpec{Client: uint32(id), Mask: res.ClientIdMaskLocalClientPID}
		}
		pids = res.QueryClientIds(w.c.x, uint32(len(specs)), specs)
	}
	if w.c.wire.uncork() != nil {
		return nil, ErrConnClosed
	}
	infos := make([]WindowInfo, 0, len(ids))
	for i, id := range ids {
		info := WindowInfo{ID: id, Active: id == active}
		err := w.read(&asked[i], &info)
		var gone xgb.Error
		switch {
		case err == nil:
			infos = append(infos, info)
		case errors.As(err, &gone): // the window was destroyed
		default:
			return nil, request.Wrap(fmt.Sprintf("describe window %d", id), err)
		}
	}
	var answers []res.ClientIdValue
	if w.c.ext.res {
		if r, err := pids.Reply(); err == nil {
			answers = r.Ids
		}
	}
	w.fillPIDs(infos, answers)
	return infos, nil
}

// fillPIDs sets the processes of windows. It prefers the server's answer: a window may have
// no number, or one of another name space.
func (w *Windows) fillPIDs(infos []WindowInfo, answers []res.ClientIdValue) {
	for i := range infos {
		client := uint32(infos[i].ID) &^ w.idMask
		for _, v := range answers {
			if v.Spec.Client == client && len(v.Value) > 0 {
				infos[i].PID = int(v.Value[0])
				break
			}
		}
		if infos[i].PID == 0 {
			pid, _ := w.word(infos[i].ID, w.atoms.pid) // EWMH _NET_WM_PID
			infos[i].PID = int(pid)
		}
	}
}

func (w *Windows) read(q *questions, info *WindowInfo) error {
	geometry, err := q.geometry.Reply()
	if err != nil {
		return err
	}
	position, err := q.position.Reply()
	if err != nil {
		return err
	}
	info.X, info.Y = int(position.DstX), int(position.DstY)
	info.Width, info.Height = int(geometry.Width), int(geometry.Height)

	var r [6]*xproto.GetPropertyReply
	for i, cookie := range [...]xproto.GetPropertyCookie{q.netName, q.name, q.class, q.extents, q.state, q.kind} {
		if r[i], err = cookie.Reply(); err != nil {
			return err
		}
	}
	if info.Title = w.text(r[0]); info.Title == "" {
		var whole bool
		if info.Title, whole = w.title(r[1]); !whole {
			// The window manager has converted it to UTF-8 for its title bar.
			if shown, err := w.property(info.ID, w.atoms.visible, maxTitle).Reply(); err == nil && shown.Format == 8 {
				info.Title = w.text(shown)
			}
		}
	}
	info.Title = bounded(info.Title)
	info.Instance, info.Class = w.class(r[2])
	info.frame(request.Words(r[3]))
	states := request.Words(r[4])
	info.Minimised = slices.Contains(states, uint32(w.atoms.hidden))
	info.Dialog = slices.Contains(request.Words(r[5]), uint32(w.atoms.dialog))
	info.Maximised = slices.Contains(states, uint32(w.atoms.maxVert)) && slices.Contains(states, uint32(w.atoms.maxHorz))
	return nil
}

// frame adds the decoration: left, right, top, bottom (EWMH _NET_FRAME_EXTENTS).
func (i *WindowInfo) frame(extents []uint32) {
	var side [4]int
	for n, extent := range extents[:min(len(extents), len(side))] {
		side[n] = int(extent & 0x7fff) // of any program, so larger than a screen
	}
	i.FrameX, i.FrameY = i.X-side[0], i.Y-side[2]
	i.FrameWidth, i.FrameHeight = i.Width+side[0]+side[1], i.Height+side[2]+side[3]
}

// class splits WM_CLASS (ICCCM 4.1.2.5).
func (w *Windows) class(r *xproto.GetPropertyReply) (instance, class string) {
	instance, rest, _ := strings.Cut(string(r.Value), "\x00")
	class, _, _ = strings.Cut(rest, "\x00")
	return bounded(strings.ToValidUTF8(instance, "\uFFFD")), bounded(strings.ToValidUTF8(class, "\uFFFD"))
}
