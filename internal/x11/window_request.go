package x11

import (
	"github.com/jezek/xgb/xproto"
)

// Requests to the window manager are client messages to the root window. Names and
// numbers of fields are from EWMH 1.5, "Root Window Properties", and ICCCM 4.1.4.
const (
	// sourcePager is the source indication of a direct wish of the user, which
	// window managers obey (EWMH, "Source indication in requests").
	sourcePager = 2
	// gravityOfWindow leaves a window the gravity that it asked for
	// (_NET_MOVERESIZE_WINDOW; ICCCM 4.1.2.3).
	gravityOfWindow = 0
	// What _NET_MOVERESIZE_WINDOW sets, and where it has the source.
	moveX, moveY, moveWidth, moveHeight = 1 << 8, 1 << 9, 1 << 10, 1 << 11
	moveSourceShift                     = 12
	// stateRemove and stateAdd are actions of _NET_WM_STATE.
	stateRemove, stateAdd = 0, 1
	// iconicState is a state of WM_CHANGE_STATE (ICCCM 4.1.3.1).
	iconicState = 3
)

// requests asks the window manager to do something with a window.
type requests struct {
	c     *Conn
	atoms *windowAtoms
}

// activate asks for a window to be raised and to get the focus.
func (r requests) activate(win xproto.Window) error {
	return r.send(win, r.atoms.active, sourcePager, xproto.TimeCurrentTime, 0)
}

// move asks for a window's place, in the terms of its gravity.
func (r requests) move(win xproto.Window, x, y int) error {
	const flags = gravityOfWindow | moveX | moveY | sourcePager<<moveSourceShift
	return r.send(win, r.atoms.moveResize, flags, uint32(int32(x)), uint32(int32(y)), 0, 0)
}

// resize asks for a size of a window's content.
func (r requests) resize(win xproto.Window, width, height int) error {
	const flags = gravityOfWindow | moveWidth | moveHeight | sourcePager<<moveSourceShift
	return r.send(win, r.atoms.moveResize, flags, 0, 0, uint32(width), uint32(height))
}

// minimise asks for a window to be minimised.
func (r requests) minimise(win xproto.Window) error {
	return r.send(win, r.atoms.iconify, iconicState)
}

// setStates adds or removes two states of a window in one step.
func (r requests) setStates(win xproto.Window, add bool, first, second xproto.Atom) error {
	action := uint32(stateRemove)
	if add {
		action = stateAdd
	}
	return r.send(win, r.atoms.netState, action, uint32(first), uint32(second), sourcePager)
}

// close asks for a window to be closed as its close button does it.
func (r requests) close(win xproto.Window) error {
	return r.send(win, r.atoms.close, xproto.TimeCurrentTime, sourcePager)
}

// send sends a client message about win to the window manager: the client
// that selected the root window's SubstructureRedirect.
func (r requests) send(win xproto.Window, kind xproto.Atom, data ...uint32) error {
	message := xproto.ClientMessageEvent{
		Format: 32, Window: win, Type: kind,
		Data: xproto.ClientMessageDataUnionData32New(append(data, make([]uint32, 5-len(data))...)),
	}
	const mask = xproto.EventMaskSubstructureNotify | xproto.EventMaskSubstructureRedirect
	err := xproto.SendEventChecked(r.c.x, false, r.c.root, mask, string(message.Bytes())).Check()
	return wrap("tell the window manager", err)
}
