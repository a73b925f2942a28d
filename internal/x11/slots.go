package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// ErrNoKeycodes is returned when a character is not on the keyboard and the
// keymap has no unused keycode to put it on.
var ErrNoKeycodes = errors.New("the keymap has no unused keycode")

// slot is an otherwise empty keycode that characters which are not on the
// keyboard are put on, one after the other.
type slot struct {
	code  xproto.Keycode
	sym   xproto.Keysym // 0: none
	used  uint64        // when, as a count of uses
	dirty bool          // pressed since the last drain: somebody may still look it up
}

// reconcileSlots brings the list of slots in line with the keymap, which
// others may have changed.
func (in *Input) reconcileSlots(k *keymap) {
	in.slots = slices.DeleteFunc(in.slots, func(s slot) bool {
		return !k.empty(s.code) && !(s.sym != 0 && k.holds(s.code, s.sym))
	})
	for i := range in.slots {
		if k.empty(in.slots[i].code) {
			in.slots[i].sym = 0
		}
	}
	for i := range k.codes() {
		code := k.first + xproto.Keycode(i)
		if k.empty(code) && in.slotOf(code) == nil {
			in.slots = append(in.slots, slot{code: code})
		}
	}
}

// holds says whether a keycode has the one keysym, as a slot would.
func (k *keymap) holds(code xproto.Keycode, sym xproto.Keysym) bool {
	row := k.row(code)
	for i, s := range row {
		if s != sym && (i < 2 || s != 0) {
			return false
		}
	}
	return k.per >= 2 && k.modifiers[code] == 0
}

func (in *Input) slotOf(code xproto.Keycode) *slot {
	for i := range in.slots {
		if in.slots[i].code == code {
			return &in.slots[i]
		}
	}
	return nil
}

func (in *Input) slotFor(sym xproto.Keysym) *slot {
	for i := range in.slots {
		if in.slots[i].sym == sym {
			return &in.slots[i]
		}
	}
	return nil
}

// holdsSlot says whether a keysym is on a slot whose key is down.
func (in *Input) holdsSlot(sym xproto.Keysym) bool {
	s := in.slotFor(sym)
	return s != nil && in.holding(s.code)
}

// touch notes a use.
func (in *Input) touch(s *slot) {
	in.tick++
	s.used, s.dirty = in.tick, true
}

// assign gives each of the keysyms a slot. What a slot had before is looked up
// by applications only when they come to the key events; so one that was used
// is given away only after its users have drained.
func (in *Input) assign(ctx context.Context, k *keymap, need []xproto.Keysym) error {
	missing := slices.DeleteFunc(slices.Clone(need), func(sym xproto.Keysym) bool { return in.slotFor(sym) != nil })
	if len(missing) == 0 {
		return nil
	}
	var free []*slot
	for i := range in.slots {
		s := &in.slots[i]
		if !in.holding(s.code) && (s.sym == 0 || !slices.Contains(need, s.sym)) {
			free = append(free, s)
		}
	}
	if len(free) < len(missing) {
		return fmt.Errorf("%w: %d needed, %d there", ErrNoKeycodes, len(missing), len(free))
	}
	slices.SortStableFunc(free, func(a, b *slot) int { return a.rank(b) })
	free = free[:len(missing)]
	if slices.ContainsFunc(free, func(s *slot) bool { return s.dirty }) {
		if err := in.drain(ctx); err != nil {
			return err
		}
	}
	for i, s := range free {
		s.sym = missing[i]
	}
	return in.mapSlots(k, free)
}

// rank orders slots by how well they can be given away.
func (s *slot) rank(o *slot) int {
	key := func(s *slot) uint64 {
		switch {
		case s.sym == 0:
			return 0
		case s.dirty:
			return 1<<63 | s.used
		}
		return s.used + 1
	}
	a, b := key(s), key(o)
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (in *Input) holding(code xproto.Keycode) bool {
	return slices.ContainsFunc(in.held, func(h heldKey) bool { return h.code == code })
}

// mapSlots tells the server what the slots now hold. All of it is one request,
// since every application reads the whole keymap anew after each: the span
// from the first to the last slot, with what is between as it was.
func (in *Input) mapSlots(k *keymap, changed []*slot) error {
	lo, hi := changed[0].code, changed[0].code
	for _, s := range changed {
		lo, hi = min(lo, s.code), max(hi, s.code)
		row := k.row(s.code)
		clear(row)
		row[0], row[1] = s.sym, s.sym // the same with Shift
	}
	in.c.wire.cork()
	span := k.syms[int(lo-k.first)*k.per : int(hi-k.first+1)*k.per]
	cookie := xproto.ChangeKeyboardMappingChecked(in.c.x, byte(hi-lo+1), lo, byte(k.per), span)
	in.recordSlots()
	if err := in.flush("change keyboard mapping"); err != nil {
		return err
	}
	return wrap("change keyboard mapping", cookie.Check())
}

// recordSlots writes down on the root window which keycodes are slots, so that
// whoever comes after a program that was killed can tell them from the
// keyboard's own keys.
func (in *Input) recordSlots() {
	var data []byte
	n := uint32(0)
	for _, s := range in.slots {
		if s.sym != 0 {
			data = append32(append32(data, uint32(s.code)), uint32(s.sym))
			n += 2
		}
	}
	xproto.ChangeProperty(in.c.x, xproto.PropModeReplace, in.c.root, in.names.slots, xproto.AtomCardinal, 32, n, data)
}

func append32(b []byte, v uint32) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
}

// adoptSlots takes over the slots that an earlier Input left.
func (in *Input) adoptSlots() error {
	r, err := xproto.GetProperty(in.c.x, false, in.c.root, in.names.slots, xproto.AtomCardinal, 0, 2*256).Reply()
	if err != nil {
		return wrap("read left keycodes", err)
	}
	if r.Format != 32 {
		return nil
	}
	for v := r.Value; len(v) >= 8; v = v[8:] {
		code, sym := xgb.Get32(v), xgb.Get32(v[4:])
		if code < 256 && sym != 0 && in.slotOf(xproto.Keycode(code)) == nil {
			in.slots = append(in.slots, slot{code: xproto.Keycode(code), sym: xproto.Keysym(sym)})
		}
	}
	return nil
}

// emptySlots gives all slots back.
func (in *Input) emptySlots() error {
	if !slices.ContainsFunc(in.slots, func(s slot) bool { return s.sym != 0 }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), inputCloseLimit)
	defer cancel()
	if err := in.drain(ctx); err != nil {
		return fmt.Errorf("give keycodes back: %w", err)
	}
	k, err := in.readKeymap()
	if err != nil {
		return err
	}
	var used []*slot
	for i := range in.slots {
		if s := &in.slots[i]; s.sym != 0 {
			s.sym = 0
			used = append(used, s)
		}
	}
	if len(used) == 0 {
		return nil
	}
	return in.mapSlots(k, used)
}
