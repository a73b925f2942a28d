package x11

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// GrabChord calls pressed, on the connection's event goroutine, whenever a chord such as
// "ctrl+alt+shift+Escape" is pressed, whichever window has the focus and whether Caps Lock
// and Num Lock are on. The window does not get the chord. The grab lasts as long as the
// connection. It fails if another program has grabbed the chord, or if this keyboard lacks
// one of its keys.
func (c *Conn) GrabChord(chord string, pressed func()) error {
	ch, err := ParseChord(chord)
	if err != nil {
		return err
	}
	mask, codes, err := locateChord(c, ch)
	if err != nil {
		return fmt.Errorf("grab %s: %w", chord, err)
	}
	const locks = xproto.ModMaskLock | xproto.ModMask2 // Caps Lock, Num Lock
	c.handle(func(ev xgb.Event) {
		e, ok := ev.(xproto.KeyPressEvent)
		if ok && slices.Contains(codes, e.Detail) && e.State&0xff&^locks == mask {
			pressed()
		}
	})
	for _, code := range codes {
		for _, lock := range []uint16{0, xproto.ModMaskLock, xproto.ModMask2, locks} {
			err := xproto.GrabKeyChecked(c.x, false, c.root, mask|lock, code, xproto.GrabModeAsync, xproto.GrabModeAsync).Check()
			if _, taken := errors.AsType[xproto.AccessError](err); taken {
				return fmt.Errorf("grab %s: another program has it", chord)
			}
			if err != nil {
				return request.Wrap("grab "+chord, err)
			}
		}
	}
	return nil
}

// locateChord returns the modifiers of a chord and the keycodes of its last key.
func locateChord(c *Conn, ch Chord) (mask uint16, codes []xproto.Keycode, err error) {
	setup := xproto.Setup(c.x)
	k := &keymap{first: setup.MinKeycode}
	mapping, err := xproto.GetKeyboardMapping(c.x, k.first, byte(setup.MaxKeycode-k.first+1)).Reply()
	if err != nil {
		return 0, nil, request.Wrap("read keyboard mapping", err)
	}
	modifiers, err := xproto.GetModifierMapping(c.x).Reply()
	if err != nil {
		return 0, nil, request.Wrap("read modifier mapping", err)
	}
	k.per, k.syms = int(mapping.KeysymsPerKeycode), mapping.Keysyms
	k.setModifiers(modifiers)
	find := func(sym xproto.Keysym) (codes []xproto.Keycode, bits uint16) {
		for i := range k.codes() {
			if code := k.first + xproto.Keycode(i); k.row(code)[0] == sym {
				codes, bits = append(codes, code), bits|uint16(k.modifiers[code])
			}
		}
		return codes, bits
	}
	last := len(ch.keys) - 1
	for _, sym := range ch.keys[:last] {
		_, bits := find(sym)
		if bits == 0 {
			return 0, nil, fmt.Errorf("keysym %#x is no modifier here", uint32(sym))
		}
		mask |= bits
	}
	if codes, _ = find(ch.keys[last]); codes == nil {
		return 0, nil, fmt.Errorf("no key makes keysym %#x", uint32(ch.keys[last]))
	}
	return mask, codes, nil
}
