package x11

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/res"
	"github.com/jezek/xgb/xproto"
)

const (
	// maxWindows bounds how many windows are looked at.
	maxWindows = 4096
	// maxTitle bounds what is read of a title, in units of four bytes.
	maxTitle = 1024
	// titleLength bounds a title and both parts of a class, in characters.
	titleLength = 256
)

// rootState reads what the window manager tells on the root window.
func (w *Windows) rootState() (ids []xproto.Window, active xproto.Window, err error) {
	w.c.wire.cork()
	list := w.property(w.c.root, w.atoms.list, maxWindows)
	act := w.property(w.c.root, w.atoms.active, 1)
	if w.c.wire.uncork() != nil {
		return nil, 0, ErrConnClosed
	}
	r, err := list.Reply()
	if err != nil {
		return nil, 0, wrap("read the client list", err)
	}
	for b := words(r); len(b) >= 4; b = b[4:] {
		ids = append(ids, xproto.Window(binary.LittleEndian.Uint32(b)))
	}
	if r, err = act.Reply(); err != nil {
		return nil, 0, wrap("read the active window", err)
	}
	return ids, xproto.Window(firstWord(r)), nil
}

func (w *Windows) property(win xproto.Window, name xproto.Atom, length uint32) xproto.GetPropertyCookie {
	return xproto.GetProperty(w.c.x, false, win, name, xproto.GetPropertyTypeAny, 0, length)
}

// word reads a property of one 32-bit unit. It returns 0 if the window has no
// such property.
func (w *Windows) word(win xproto.Window, name xproto.Atom) (uint32, error) {
	r, err := w.property(win, name, 1).Reply()
	if err != nil {
		return 0, err
	}
	return firstWord(r), nil
}

// questions are the requests about one window that are under way.
type questions struct {
	geometry                                   xproto.GetGeometryCookie
	position                                   xproto.TranslateCoordinatesCookie
	attributes                                 xproto.GetWindowAttributesCookie
	netName, name, class, extents, state, kind xproto.GetPropertyCookie
}

// describe asks everything about all windows, then reads the answers, so that
// it waits for the server once.
func (w *Windows) describe(ids []xproto.Window, active xproto.Window) ([]WindowInfo, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	asked := make([]questions, len(ids))
	w.c.wire.cork()
	for i, id := range ids {
		asked[i] = questions{
			geometry:   xproto.GetGeometry(w.c.x, xproto.Drawable(id)),
			position:   xproto.TranslateCoordinates(w.c.x, id, w.c.root, 0, 0),
			attributes: xproto.GetWindowAttributes(w.c.x, id),
			netName:    w.property(id, w.atoms.netName, maxTitle),
			name:       w.property(id, xproto.AtomWmName, maxTitle),
			class:      w.property(id, xproto.AtomWmClass, maxTitle),
			extents:    w.property(id, w.atoms.extents, 4),
			state:      w.property(id, w.atoms.netState, 32),
			kind:       w.property(id, w.atoms.netType, 32),
		}
	}
	var pids res.QueryClientIdsCookie
	if w.c.ext.res {
		pids = w.queryPIDs(ids)
	}
	if w.c.wire.uncork() != nil {
		return nil, ErrConnClosed
	}
	infos := make([]WindowInfo, 0, len(ids))
	for i, id := range ids {
		info := WindowInfo{ID: Window(id), Active: id == active}
		err := w.read(&asked[i], &info)
		var gone xgb.Error
		switch {
		case err == nil:
			infos = append(infos, info)
		case errors.As(err, &gone): // the window has vanished
		default:
			return nil, wrap(fmt.Sprintf("describe window %d", id), err)
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

// fillPIDs prefers what the server knows: a window may say nothing, or the
// number that its program has in another name space.
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
			infos[i].PID = w.statedPID(infos[i].ID)
		}
	}
}

// statedPID is what a window says itself (EWMH _NET_WM_PID).
func (w *Windows) statedPID(id Window) int {
	pid, err := w.word(xproto.Window(id), w.atoms.pid)
	if err != nil {
		return 0
	}
	return int(pid)
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
	attributes, err := q.attributes.Reply()
	if err != nil {
		return err
	}
	info.X, info.Y = int(position.DstX), int(position.DstY)
	info.Width, info.Height = int(geometry.Width), int(geometry.Height)
	info.Mapped = attributes.MapState == xproto.MapStateViewable

	var r [6]*xproto.GetPropertyReply
	for i, cookie := range [...]xproto.GetPropertyCookie{q.netName, q.name, q.class, q.extents, q.state, q.kind} {
		if r[i], err = cookie.Reply(); err != nil {
			return err
		}
	}
	if info.Title = w.text(r[0]); info.Title == "" {
		var whole bool
		if info.Title, whole = w.title(r[1]); !whole {
			// The window manager has made UTF-8 of it for its title bar.
			if shown, err := w.property(xproto.Window(info.ID), w.atoms.visible, maxTitle).Reply(); err == nil && shown.Format == 8 {
				info.Title = w.text(shown)
			}
		}
	}
	info.Title = bounded(info.Title)
	info.Instance, info.Class = w.class(r[2])
	info.frame(words(r[3]))
	w.states(info, words(r[4]))
	info.NormalType = w.normal(words(r[5]))
	return nil
}

// frame adds the decoration: left, right, top, bottom (EWMH _NET_FRAME_EXTENTS).
func (i *WindowInfo) frame(b []byte) {
	var side [4]int
	for n := range side {
		if len(b) >= 4 {
			// What no screen can hold is nonsense from some program.
			side[n] = int(binary.LittleEndian.Uint32(b) & 0x7fff)
			b = b[4:]
		}
	}
	i.FrameX, i.FrameY = i.X-side[0], i.Y-side[2]
	i.FrameWidth, i.FrameHeight = i.Width+side[0]+side[1], i.Height+side[2]+side[3]
}

func (w *Windows) states(info *WindowInfo, b []byte) {
	var vert, horz bool
	for ; len(b) >= 4; b = b[4:] {
		switch xproto.Atom(binary.LittleEndian.Uint32(b)) {
		case w.atoms.hidden:
			info.Minimised = true
		case w.atoms.maxVert:
			vert = true
		case w.atoms.maxHorz:
			horz = true
		}
	}
	info.Maximised = vert && horz
}

// normal looks at a window's types, of which a window need not have one.
func (w *Windows) normal(b []byte) bool {
	if len(b) < 4 {
		return true
	}
	for ; len(b) >= 4; b = b[4:] {
		switch xproto.Atom(binary.LittleEndian.Uint32(b)) {
		case w.atoms.typeNormal, w.atoms.typeDialog, w.atoms.typeUtility:
			return true
		}
	}
	return false
}

// class splits WM_CLASS (ICCCM 4.1.2.5).
func (w *Windows) class(r *xproto.GetPropertyReply) (instance, class string) {
	instance, rest, _ := strings.Cut(string(r.Value), "\x00")
	class, _, _ = strings.Cut(rest, "\x00")
	return bounded(strings.ToValidUTF8(instance, "\uFFFD")), bounded(strings.ToValidUTF8(class, "\uFFFD"))
}

// words returns the value of a property of 32 bit units; others are no bytes.
func words(r *xproto.GetPropertyReply) []byte {
	if r.Format != 32 {
		return nil
	}
	return r.Value
}

// atoms returns the value of a property that is a list of them.
func atoms(r *xproto.GetPropertyReply) (list []xproto.Atom) {
	for b := words(r); len(b) >= 4; b = b[4:] {
		list = append(list, xproto.Atom(binary.LittleEndian.Uint32(b)))
	}
	return list
}

func firstWord(r *xproto.GetPropertyReply) uint32 {
	if b := words(r); len(b) >= 4 {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}
