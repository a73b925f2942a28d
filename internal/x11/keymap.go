package x11

import (
	"errors"
	"maps"
	"slices"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Keysyms that the code names (X11 protocol, appendix A).
const (
	keyBackSpace  xproto.Keysym = 0xff08
	keyTab        xproto.Keysym = 0xff09
	keyReturn     xproto.Keysym = 0xff0d
	keyEnter      xproto.Keysym = 0xff8d
	keyEscape     xproto.Keysym = 0xff1b
	keyDelete     xproto.Keysym = 0xffff
	keyShiftL     xproto.Keysym = 0xffe1
	keyShiftR     xproto.Keysym = 0xffe2
	keyControlL   xproto.Keysym = 0xffe3
	keyControlR   xproto.Keysym = 0xffe4
	keyAltL       xproto.Keysym = 0xffe9
	keySuperL     xproto.Keysym = 0xffeb
	keyCapsLock   xproto.Keysym = 0xffe5
	keyShiftLock  xproto.Keysym = 0xffe6
	keyHyperR     xproto.Keysym = 0xffee
	keyNumLock    xproto.Keysym = 0xff7f
	keyModeSwitch xproto.Keysym = 0xff7e
	keyLevel3     xproto.Keysym = 0xfe03
	keyUnicode    xproto.Keysym = 0x01000000 // plus a code point
)

// stroke is how to produce a keysym.
type stroke struct {
	code  xproto.Keycode
	shift bool
}

// keymap is a snapshot of the server's keyboard mapping and state.
type keymap struct {
	first     xproto.Keycode
	per       int // keysyms per keycode
	syms      []xproto.Keysym
	group     byte
	where     map[xproto.Keysym]stroke // what the group in use reaches with and without Shift
	modifiers [256]byte                // mask of modifiers that a keycode sets
	mapping   *xproto.GetModifierMappingReply
	shift     xproto.Keycode // a key for Shift; 0: none
	state     lockState
	down      [32]byte // a bit per keycode
}

// readKeymap reads the keyboard in one round trip. Other programs may change the keyboard
// at any time.
func (kb *Keyboard) readKeymap() (*keymap, error) {
	c := kb.c
	setup := xproto.Setup(c.x)
	k := &keymap{first: setup.MinKeycode}
	c.wire.cork()
	mapping := xproto.GetKeyboardMapping(c.x, k.first, byte(setup.MaxKeycode-k.first+1))
	modifiers := xproto.GetModifierMapping(c.x)
	pressed := xproto.QueryKeymap(c.x)
	state := kb.xkb.askState()
	record := kb.slots.ask()
	if err := c.wire.uncork(); err != nil {
		return nil, request.Wrap("read keyboard", err)
	}
	m, mappingErr := mapping.Reply()
	mods, modifiersErr := modifiers.Reply()
	p, pressedErr := pressed.Reply()
	locks, stateErr := readLockState(state)
	used, recordErr := record.Reply()
	if err := errors.Join(mappingErr, modifiersErr, pressedErr, stateErr, recordErr); err != nil {
		return nil, request.Wrap("read keyboard", err)
	}
	k.per, k.syms, k.state = int(m.KeysymsPerKeycode), m.Keysyms, locks
	k.setModifiers(mods)
	copy(k.down[:], p.Keys)
	kb.takeKeymap(k, used)
	return k, nil
}

func (k *keymap) setModifiers(m *xproto.GetModifierMappingReply) {
	k.mapping = m
	for i, code := range m.Keycodes {
		k.modifiers[code] |= 1 << (i / int(m.KeycodesPerModifier))
	}
	k.modifiers[0] = 0 // of unused entries
}

// takeKeymap makes a keymap the current one and indexes it.
func (kb *Keyboard) takeKeymap(k *keymap, used *xproto.GetPropertyReply) {
	// The core protocol shows two groups, two keysyms each.
	if k.group = k.state.group; k.group > 1 || k.per < 4 {
		k.group = 0
	}
	if !kb.slots.claimed {
		kb.slots.all, kb.keymap = kb.slots.read(used), nil
	}
	kb.slots.reconcile(k)
	if old := kb.keymap; old != nil && old.same(k) {
		k.where, k.shift = old.where, old.shift
	} else {
		k.index(kb.slots.has)
	}
	kb.keymap = k
}

// same reports whether two keymaps have the same keysyms and modifiers.
func (k *keymap) same(o *keymap) bool {
	return k.group == o.group && k.per == o.per && k.modifiers == o.modifiers && slices.Equal(k.syms, o.syms)
}

// row returns the keysyms of a keycode.
func (k *keymap) row(code xproto.Keycode) []xproto.Keysym {
	i := int(code-k.first) * k.per
	return k.syms[i : i+k.per]
}

func (k *keymap) codes() int { return len(k.syms) / max(k.per, 1) }

// index finds the key for each keysym, except on keycodes to skip. It prefers the level
// without Shift, then the lowest keycode.
func (k *keymap) index(skip func(xproto.Keycode) bool) {
	k.where = make(map[xproto.Keysym]stroke, k.codes())
	for level := range min(2, k.per) {
		for i := range k.codes() {
			code := k.first + xproto.Keycode(i)
			if skip(code) {
				continue
			}
			row := k.row(code)
			sym := row[2*int(k.group)+level]
			if sym == 0 && k.group == 1 && row[2] == 0 && row[3] == 0 {
				sym = row[level] // a key with one group has it in all
			}
			if sym == 0 {
				continue
			}
			if _, ok := k.where[sym]; !ok {
				k.where[sym] = stroke{code, level == 1}
			}
		}
	}
	for _, sym := range []xproto.Keysym{keyShiftL, keyShiftR} {
		if at, ok := k.where[sym]; ok && !at.shift && k.modifiers[at.code]&xproto.ModMaskShift != 0 {
			k.shift = at.code
			return
		}
	}
	maps.DeleteFunc(k.where, func(_ xproto.Keysym, s stroke) bool { return s.shift }) // out of reach
}

// empty reports whether a keycode has no keysym and sets no modifier.
func (k *keymap) empty(code xproto.Keycode) bool {
	return k.modifiers[code] == 0 && !slices.ContainsFunc(k.row(code), func(sym xproto.Keysym) bool { return sym != 0 })
}

func (k *keymap) pressed(code xproto.Keycode) bool {
	return k.down[code/8]&(1<<(code%8)) != 0
}

// runeKeysym returns the keysym of a character (X11 protocol, appendix A: Latin-1
// characters have their own number, others follow at 0x01000000).
func runeKeysym(r rune) xproto.Keysym {
	if r < 0x100 {
		return xproto.Keysym(r)
	}
	return keyUnicode + xproto.Keysym(r)
}

// isModifier reports whether a keysym is a modifier.
func isModifier(sym xproto.Keysym) bool {
	return sym >= keyShiftL && sym <= keyHyperR || sym == keyModeSwitch || sym >= 0xfe01 && sym <= 0xfe13
}
