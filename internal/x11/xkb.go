package x11

import (
	"encoding/binary"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// The XKB requests that are used; xgb has no package for this extension ("The
// X Keyboard Extension: Protocol Specification", appendix D).
const (
	xkbUseExtension    = 0
	xkbGetState        = 4
	xkbLatchLockState  = 5
	xkbCoreKeyboard    = 0x0100 // device "the core keyboard"
	xkbMajor, xkbMinor = 1, 0
)

// xkb speaks the keyboard extension.
type xkb struct {
	x      *xgb.Conn
	opcode byte
}

// lockState is the part of the keyboard's state that outlives key presses, and
// the modifiers of keys that are down.
type lockState struct {
	base, latched, locked byte // modifiers
	group                 byte // the effective one, 0 to 3
	lockedGroup           byte
}

// openXkb finds the extension and tells the server that it will be used.
func openXkb(x *xgb.Conn) (xkb, error) {
	const name = "XKEYBOARD"
	r, err := xproto.QueryExtension(x, uint16(len(name)), name).Reply()
	if err != nil {
		return xkb{}, wrap("query extension "+name, err)
	}
	if !r.Present {
		return xkb{}, fmt.Errorf("the X server lacks the extension %s", name)
	}
	k := xkb{x: x, opcode: r.MajorOpcode}
	b := k.request(xkbUseExtension, 2)
	b = binary.LittleEndian.AppendUint16(b, xkbMajor)
	b = binary.LittleEndian.AppendUint16(b, xkbMinor)
	cookie := x.NewCookie(true, true)
	x.NewRequest(b, cookie)
	reply, err := cookie.Reply()
	if err != nil {
		return xkb{}, wrap("use extension "+name, err)
	}
	if len(reply) < 2 || reply[1] == 0 {
		return xkb{}, fmt.Errorf("the X server does not support version %d.%d of %s", xkbMajor, xkbMinor, name)
	}
	return k, nil
}

// request starts a request of that many four-byte units.
func (k xkb) request(minor byte, units uint16) []byte {
	b := make([]byte, 0, 4*units)
	b = append(b, k.opcode, minor)
	return binary.LittleEndian.AppendUint16(b, units)
}

// askState asks for the keyboard's state; readLockState reads the answer.
func (k xkb) askState() *xgb.Cookie {
	b := k.request(xkbGetState, 2)
	b = binary.LittleEndian.AppendUint16(b, xkbCoreKeyboard)
	b = append(b, 0, 0)
	cookie := k.x.NewCookie(true, true)
	k.x.NewRequest(b, cookie)
	return cookie
}

func readLockState(cookie *xgb.Cookie) (lockState, error) {
	b, err := cookie.Reply()
	if err != nil {
		return lockState{}, wrap("keyboard state", err)
	}
	if len(b) < 32 {
		return lockState{}, fmt.Errorf("keyboard state: answer of %d bytes", len(b))
	}
	return lockState{base: b[9], latched: b[10], locked: b[11], group: b[12], lockedGroup: b[13]}, nil
}

// lock sets the locked modifiers in mask to mods and the locked group, and
// clears latches. Applications see no key event from it.
func (k xkb) lock(mask, mods, latches, group byte) {
	b := k.request(xkbLatchLockState, 4)
	b = binary.LittleEndian.AppendUint16(b, xkbCoreKeyboard)
	b = append(b, mask, mods, 1, group, latches, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, 0)
	k.x.NewRequest(b, k.x.NewCookie(false, false))
}
