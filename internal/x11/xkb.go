package x11

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Requests of XKB, for which xgb has no package ("The X Keyboard Extension: Protocol
// Specification", appendix D).
const (
	xkbUseExtension    = 0
	xkbGetState        = 4
	xkbLatchLockState  = 5
	xkbSetControls     = 7
	xkbMapGet          = 8
	xkbMapSet          = 9
	xkbKeySyms         = 1 << 1 // the map's component
	xkbTwoLevel        = 1      // the type of keys that Shift, and nothing else, changes
	xkbCoreKeyboard    = 0x0100 // device "the core keyboard"
	xkbMajor, xkbMinor = 1, 0

	xkbControlsEnabled = 1 << 31 // what SetControls changes
	xkbSlowKeys        = 1 << 1  // keys count only if they are held for some time
	xkbBounceKeys      = 1 << 2  // a key that is pressed again soon does not count
)

// xkb sends requests of the keyboard extension.
type xkb struct {
	x      *xgb.Conn
	opcode byte
}

// lockState is the state of modifiers and groups.
type lockState struct {
	base, latched, locked byte // modifiers; base: of keys that are down
	group                 byte // the effective one, 0 to 3
	lockedGroup           byte
}

// openXkb finds the extension and negotiates its version.
func openXkb(x *xgb.Conn) (xkb, error) {
	const name = "XKEYBOARD"
	r, err := xproto.QueryExtension(x, uint16(len(name)), name).Reply()
	if err != nil {
		return xkb{}, request.Wrap("query extension "+name, err)
	}
	if !r.Present {
		return xkb{}, fmt.Errorf("the X server lacks the extension %s", name)
	}
	k := xkb{x: x, opcode: r.MajorOpcode}
	b := k.request(xkbUseExtension, 2)
	b = binary.LittleEndian.AppendUint16(b, xkbMajor)
	b = binary.LittleEndian.AppendUint16(b, xkbMinor)
	reply, err := k.ask(b).Reply()
	if err != nil {
		return xkb{}, request.Wrap("use extension "+name, err)
	}
	if len(reply) < 2 || reply[1] == 0 {
		return xkb{}, fmt.Errorf("the X server does not support version %d.%d of %s", xkbMajor, xkbMinor, name)
	}
	return k, nil
}

// request begins a request of that many four-byte units.
func (k xkb) request(minor byte, units uint16) []byte {
	b := make([]byte, 0, 4*units)
	b = append(b, k.opcode, minor)
	return binary.LittleEndian.AppendUint16(b, units)
}

// ask sends a request that has a reply.
func (k xkb) ask(b []byte) *xgb.Cookie {
	cookie := k.x.NewCookie(true, true)
	k.x.NewRequest(b, cookie)
	return cookie
}

// askState asks for the keyboard's state; readLockState reads the answer.
func (k xkb) askState() *xgb.Cookie {
	b := k.request(xkbGetState, 2)
	b = binary.LittleEndian.AppendUint16(b, xkbCoreKeyboard)
	return k.ask(append(b, 0, 0))
}

func readLockState(cookie *xgb.Cookie) (lockState, error) {
	b, err := cookie.Reply()
	if err != nil {
		return lockState{}, request.Wrap("keyboard state", err)
	}
	if len(b) < 32 {
		return lockState{}, fmt.Errorf("keyboard state: answer of %d bytes", len(b))
	}
	return lockState{base: b[9], latched: b[10], locked: b[11], group: b[12], lockedGroup: b[13]}, nil
}

// lock sets the locked modifiers in mask to mods, sets the locked group, and clears
// latches. Applications get no key event.
func (k xkb) lock(mask, mods, latches, group byte) {
	b := k.request(xkbLatchLockState, 4)
	b = binary.LittleEndian.AppendUint16(b, xkbCoreKeyboard)
	b = append(b, mask, mods, 1, group, latches, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, 0)
	k.x.NewRequest(b, k.x.NewCookie(false, false))
}

// setControls turns on the controls of mask that are in on, and turns off the others of
// mask.
func (k xkb) setControls(mask, on uint32) {
	const units = 25
	b := k.request(xkbSetControls, units)
	b = binary.LittleEndian.AppendUint16(b, xkbCoreKeyboard)
	b = append(b, make([]byte, 4*units-len(b))...)
	binary.LittleEndian.PutUint32(b[24:], mask)
	binary.LittleEndian.PutUint32(b[28:], on)
	binary.LittleEndian.PutUint32(b[32:], xkbControlsEnabled)
	k.x.NewRequest(b, k.x.NewCookie(false, false))
}

// keyEntries is the keysyms of a range of keycodes, as XKB encodes them: unlike the core
// protocol, with all levels and groups, and the modifiers that select them.
type keyEntries struct {
	min, max, first xproto.Keycode // of the keyboard; of the range
	entries         [][]byte       // a KEYSYMMAP each
}

// keyEntrySize is the size of a KEYSYMMAP without its keysyms.
const keyEntrySize = 8

// entries asks for the keysyms of keycodes lo to hi (GetMap).
func (k xkb) entries(lo, hi xproto.Keycode) (keyEntries, error) {
	const op = "read keysyms"
	b := k.request(xkbMapGet, 7)
	b = binary.LittleEndian.AppendUint16(b, xkbCoreKeyboard)
	b = append(b, 0, 0, xkbKeySyms, 0) // full: none; partial
	b = append(b, 0, 0, byte(lo), byte(hi-lo+1))
	b = append(b, make([]byte, 28-len(b))...)
	r, err := k.ask(b).Reply()
	if err != nil {
		return keyEntries{}, request.Wrap(op, err)
	}
	const header = 40
	if len(r) < header || r[17] != byte(lo) || r[20] != byte(hi-lo+1) {
		return keyEntries{}, fmt.Errorf("%s: wrong answer of %d bytes", op, len(r))
	}
	m := keyEntries{min: xproto.Keycode(r[10]), max: xproto.Keycode(r[11]), first: lo, entries: make([][]byte, 0, hi-lo+1)}
	for r = r[header:]; len(m.entries) < cap(m.entries); {
		size := keyEntrySize
		if len(r) >= size {
			size += 4 * int(xgb.Get16(r[6:]))
		}
		if len(r) < size {
			return keyEntries{}, fmt.Errorf("%s: answer cut off", op)
		}
		m.entries = append(m.entries, r[:size:size])
		r = r[size:]
	}
	return m, nil
}

// setEntries replaces the keysyms of a range of keycodes (SetMap). The caller checks the
// cookie. It returns an error if other programs have made the keymap too large for a request.
func (k xkb) setEntries(m keyEntries, flags uint16) (*xgb.Cookie, error) {
	const header = 36
	size := header
	for _, e := range m.entries {
		size += len(e)
	}
	if size/4 > math.MaxUint16 {
		return nil, fmt.Errorf("set keysyms: a keymap of %d bytes is too large for a request", size)
	}
	b := make([]byte, header, size)
	b[0], b[1] = k.opcode, xkbMapSet
	binary.LittleEndian.PutUint16(b[2:], uint16(size/4))
	binary.LittleEndian.PutUint16(b[4:], xkbCoreKeyboard)
	binary.LittleEndian.PutUint16(b[6:], xkbKeySyms)
	binary.LittleEndian.PutUint16(b[8:], flags)
	b[10], b[11] = byte(m.min), byte(m.max)
	b[14], b[15] = byte(m.first), byte(len(m.entries))
	binary.LittleEndian.PutUint16(b[16:], uint16((size-header-keyEntrySize*len(m.entries))/4))
	for _, e := range m.entries {
		b = append(b, e...)
	}
	cookie := k.x.NewCookie(true, false)
	k.x.NewRequest(b, cookie)
	return cookie, nil
}

// keyEntry returns the entry of a key with one group of two levels, or with none if plain
// is 0.
func keyEntry(plain, shifted xproto.Keysym) []byte {
	if plain == 0 {
		return make([]byte, keyEntrySize)
	}
	b := []byte{xkbTwoLevel, 0, 0, 0, 1, 2, 2, 0} // a type per group; groups, width, keysyms
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, uint32(plain)), uint32(shifted))
}
