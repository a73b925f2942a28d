// Package request has the requests to the X server that packages x11 and quiesce share.
package request

import (
	"errors"
	"fmt"
	"io"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// ErrConnClosed is returned once the connection to the X server is gone.
var ErrConnClosed = errors.New("connection to the X server is closed")

// Wrap puts the name of the operation before an error of xgb, unless that is nil. It
// turns io.EOF, with which xgb reports that the connection is gone, into ErrConnClosed.
func Wrap(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		err = ErrConnClosed
	}
	return fmt.Errorf("%s: %w", op, err)
}

// Sync waits until the server has handled every request sent before.
func Sync(x *xgb.Conn) error {
	_, err := xproto.GetInputFocus(x).Reply()
	return Wrap("synchronise", err)
}

// Atoms interns names with one wait.
func Atoms(x *xgb.Conn, names map[string]*xproto.Atom) error {
	cookies := make(map[string]xproto.InternAtomCookie, len(names))
	for name := range names {
		cookies[name] = xproto.InternAtom(x, false, uint16(len(name)), name)
	}
	for name, atom := range names {
		r, err := cookies[name].Reply()
		if err != nil {
			return Wrap("intern atom "+name, err)
		}
		*atom = r.Atom
	}
	return nil
}

// Property asks for a property of any type, of at most length units of four bytes.
func Property(x *xgb.Conn, win xproto.Window, name xproto.Atom, length uint32) xproto.GetPropertyCookie {
	return xproto.GetProperty(x, false, win, name, xproto.GetPropertyTypeAny, 0, length)
}

// Words returns the value of a property of 32-bit units. It returns nil for other
// properties.
func Words(r *xproto.GetPropertyReply) (list []uint32) {
	if r.Format != 32 {
		return nil
	}
	for b := r.Value; len(b) >= 4; b = b[4:] {
		list = append(list, xgb.Get32(b))
	}
	return list
}

// Word returns the first of Words, or 0.
func Word(r *xproto.GetPropertyReply) uint32 {
	if list := Words(r); len(list) > 0 {
		return list[0]
	}
	return 0
}

// Window returns the window in a property of a program, or 0 if it is of the connection's own
// range: an error for one that does not exist would look as if a program had destroyed it.
func Window(x *xgb.Conn, r *xproto.GetPropertyReply) xproto.Window {
	if id := Word(r); !Owns(xproto.Setup(x), id) {
		return xproto.Window(id)
	}
	return 0
}

// Owns reports whether a resource, such as a window, belongs to the client with that setup.
func Owns(setup *xproto.SetupInfo, id uint32) bool {
	return id&^setup.ResourceIdMask == setup.ResourceIdBase
}

// Message is the encoding of a client message about win. It has at most five data units.
func Message(win xproto.Window, kind xproto.Atom, data ...uint32) string {
	m := xproto.ClientMessageEvent{
		Format: 32, Window: win, Type: kind,
		Data: xproto.ClientMessageDataUnionData32New(append(data, make([]uint32, 5-len(data))...)),
	}
	return string(m.Bytes())
}

// SendToManager sends a client message about win to the window manager of root: the client
// that selected SubstructureRedirect there (EWMH, "Root Window Properties"; ICCCM 4.1.4).
func SendToManager(x *xgb.Conn, root, win xproto.Window, kind xproto.Atom, data ...uint32) error {
	const mask = xproto.EventMaskSubstructureNotify | xproto.EventMaskSubstructureRedirect
	return Wrap("send to the window manager", xproto.SendEventChecked(x, false, root, mask, Message(win, kind, data...)).Check())
}

// HiddenWindow makes a window that is never shown, for events of the mask.
func HiddenWindow(x *xgb.Conn, root xproto.Window, mask uint32) (xproto.Window, error) {
	win, err := xproto.NewWindowId(x)
	if err == nil {
		err = xproto.CreateWindowChecked(x, 0, win, root, -10, -10, 1, 1, 0, xproto.WindowClassInputOnly, 0,
			xproto.CwOverrideRedirect|xproto.CwEventMask, []uint32{1, mask}).Check()
	}
	return win, Wrap("create window", err)
}
