package x11

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// ErrNoKeycodes is returned when a character is not on the keyboard and the
// keymap has no unused keycode to put it on, or another program's Input uses
// those of this display.
var ErrNoKeycodes = errors.New("no unused keycode is left for characters that are not on the keyboard")

// slot is one level, with or without Shift, of an otherwise empty keycode.
// Characters that are not on the keyboard are put there, one after the other.
// A level that is not in use has the keysym of the other one, so that Shift
// then has no effect.
type slot struct {
	stroke
	sym   xproto.Keysym // 0: none
	used  uint64        // when, as a count of uses
	dirty bool          // pressed since the last drain: somebody may still look it up
}

// reconcileSlots brings the list of slots in line with the keymap, which
// others may have changed. Both levels of a keycode follow each other.
func (in *Input) reconcileSlots(k *keymap) {
	if !in.claimed {
		return // they are another Input's, and only known to be kept out of the way
	}
	for i := 0; i < len(in.slots); {
		pair := in.slots[i : i+2]
		switch code := pair[0].code; {
		case k.empty(code):
			pair[0].sym, pair[1].sym = 0, 0
		case !k.holds(code, pair):
			in.slots = slices.Delete(in.slots, i, i+2)
			continue
		}
		i += 2
	}
	if k.per < 2 {
		return
	}
	for i := range k.codes() {
		if code := k.first + xproto.Keycode(i); k.empty(code) && !in.isSlot(code) {
			in.slots = append(in.slots, slot{stroke: stroke{code, false}}, slot{stroke: stroke{code, true}})
		}
	}
}

// holds says whether a keycode has what the two slots put there.
func (k *keymap) holds(code xproto.Keycode, pair []slot) bool {
	if code < k.first || int(code-k.first) >= k.codes() || k.per < 2 || k.modifiers[code] != 0 {
		return false
	}
	row, plain, shifted := k.row(code), pair[0].level(pair[1]), pair[1].level(pair[0])
	if plain == 0 || row[0] != plain || row[1] != shifted {
		return false
	}
	return !slices.ContainsFunc(row, func(s xproto.Keysym) bool { return s != 0 && s != plain && s != shifted })
}

// level is the keysym of a slot, given the other one of its keycode.
func (s slot) level(other slot) xproto.Keysym {
	if s.sym == 0 {
		return other.sym
	}
	return s.sym
}

func (in *Input) isSlot(code xproto.Keycode) bool {
	return slices.ContainsFunc(in.slots, func(s slot) bool { return s.code == code })
}

// slotFor finds the slot of a keysym, or nil.
func (in *Input) slotFor(sym xproto.Keysym) *slot {
	for i := range in.slots {
		if in.slots[i].sym == sym {
			return &in.slots[i]
		}
	}
	return nil
}

// soleSlotFor finds a slot whose keysym Shift does not change, or nil.
func (in *Input) soleSlotFor(sym xproto.Keysym) *slot {
	for i := 0; i < len(in.slots); i += 2 {
		if in.slots[i].sym == sym && in.slots[i+1].sym == 0 {
			return &in.slots[i]
		}
	}
	return nil
}

// touch notes a use.
func (in *Input) touch(s *slot) {
	in.tick++
	s.used, s.dirty, in.dirty = in.tick, true, true
}

// assign gives as many of the keysyms a slot as is possible at once, and at
// least the first. What a slot had before is looked up by applications only
// when they come to the key events; so one that was used is given away only
// after those who may have got its key have drained.
func (in *Input) assign(ctx context.Context, k *keymap, need []xproto.Keysym) error {
	if err := in.reclaim(k); err != nil {
		return err
	}
	var free []*slot
	for i := range in.slots {
		s := &in.slots[i]
		if s.shift && k.shift == 0 || in.holding(s.code) {
			continue
		}
		if s.sym == 0 || !slices.Contains(need, s.sym) {
			free = append(free, s)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(need), func(sym xproto.Keysym) bool { return in.slotFor(sym) != nil })
	if len(missing) == 0 {
		return nil
	}
	if len(free) == 0 {
		return ErrNoKeycodes
	}
	slices.SortStableFunc(free, (*slot).compare)
	clean := 0
	for clean < len(free) && !free[clean].dirty {
		clean++
	}
	if clean == 0 {
		if err := in.drain(ctx); err != nil {
			return err
		}
		clean = len(free)
	}
	free = free[:min(clean, len(missing))]
	for i, s := range free {
		*s = slot{stroke: s.stroke, sym: missing[i]}
	}
	return in.mapSlots(free)
}

// assignSole puts a keysym on both levels of a keycode.
func (in *Input) assignSole(ctx context.Context, k *keymap, sym xproto.Keysym, keep []xproto.Keysym) error {
	if err := in.reclaim(k); err != nil {
		return err
	}
	best := -1
	for i := 0; i < len(in.slots); i += 2 {
		a, b := &in.slots[i], &in.slots[i+1]
		if in.holding(a.code) || slices.Contains(keep, a.sym) && b.sym == 0 {
			continue
		}
		if best < 0 || latest(a, b).compare(latest(&in.slots[best], &in.slots[best+1])) < 0 {
			best = i
		}
	}
	if best < 0 {
		return ErrNoKeycodes
	}
	a, b := &in.slots[best], &in.slots[best+1]
	if a.dirty || b.dirty {
		if err := in.drain(ctx); err != nil {
			return err
		}
	}
	*a, *b = slot{stroke: a.stroke, sym: sym}, slot{stroke: b.stroke}
	return in.mapSlots([]*slot{a})
}

// compare orders slots by how well they can be given away: those that are
// empty, then those that nobody looks up, the longest unused first.
func (s *slot) compare(o *slot) int {
	rank := func(s *slot) int {
		switch {
		case s.dirty:
			return 2
		case s.sym != 0:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(s), rank(o)), cmp.Compare(s.used, o.used))
}

// latest is the slot that is worse to give away.
func latest(a, b *slot) *slot {
	if a.compare(b) > 0 {
		return a
	}
	return b
}

func (in *Input) holding(code xproto.Keycode) bool {
	return slices.ContainsFunc(in.held, func(h heldKey) bool { return h.code == code })
}

// mapSlots tells the server what the slots now hold. All of it is one request,
// since every application reads the whole keymap anew after each: the span
// from the first to the last slot, with what is between exactly as it was. The
// core protocol's request would do damage there: it knows fewer levels.
func (in *Input) mapSlots(changed []*slot) error {
	lo, hi := changed[0].code, changed[0].code
	for _, s := range changed {
		lo, hi = min(lo, s.code), max(hi, s.code)
	}
	span, err := in.xkb.entries(lo, hi)
	if err != nil {
		return err
	}
	for _, s := range changed {
		i := slices.IndexFunc(in.slots, func(o slot) bool { return o.code == s.code })
		a, b := in.slots[i], in.slots[i+1]
		span.entries[s.code-lo] = keyEntry(a.level(b), b.level(a))
	}
	in.c.wire.cork()
	cookie := in.xkb.setEntries(span, 0)
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
	for i := 0; i < len(in.slots); i += 2 {
		if a, b := in.slots[i], in.slots[i+1]; a.sym|b.sym != 0 {
			data = append32(append32(append32(data, uint32(a.code)), uint32(a.sym)), uint32(b.sym))
			n += 3
		}
	}
	xproto.ChangeProperty(in.c.x, xproto.PropModeReplace, in.c.root, in.names.slots, xproto.AtomCardinal, 32, n, data)
}

func append32(b []byte, v uint32) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
}

// claimSlots makes this Input the one that uses the keymap's empty keycodes,
// unless there is one already: two would overwrite each other's characters. The
// owner of a selection is the mark; the server takes it from whoever dies. What
// a dead one left in slots is taken over.
func (in *Input) claimSlots() error {
	c := in.c
	xproto.GrabServer(c.x) // nobody may claim between the question and the claim
	owner, err := xproto.GetSelectionOwner(c.x, in.names.slots).Reply()
	if err == nil && owner.Owner == 0 {
		xproto.SetSelectionOwner(c.x, in.window, in.names.slots, xproto.TimeCurrentTime)
		in.claimed = true
	}
	xproto.UngrabServer(c.x)
	if err != nil {
		return wrap("claim keycodes", err)
	}
	if !in.claimed {
		return nil
	}
	left, err := in.askSlots().Reply()
	if err != nil {
		return wrap("read left keycodes", err)
	}
	in.slots = in.recordedSlots(left)
	return nil
}

func (in *Input) askSlots() xproto.GetPropertyCookie {
	return xproto.GetProperty(in.c.x, false, in.c.root, in.names.slots, xproto.AtomCardinal, 0, 3*256)
}

// recordedSlots reads what recordSlots wrote. It skips keycodes that the keyboard does not
// have: any program can write them.
func (in *Input) recordedSlots(r *xproto.GetPropertyReply) (slots []slot) {
	if r.Format != 32 {
		return nil
	}
	setup := xproto.Setup(in.c.x)
	for v := r.Value; len(v) >= 12; v = v[12:] {
		n := xgb.Get32(v)
		if n < uint32(setup.MinKeycode) || n > uint32(setup.MaxKeycode) {
			continue
		}
		code := xproto.Keycode(n)
		if slices.ContainsFunc(slots, func(s slot) bool { return s.code == code }) {
			continue
		}
		slots = append(slots, slot{stroke: stroke{code, false}, sym: xproto.Keysym(xgb.Get32(v[4:]))},
			slot{stroke: stroke{code, true}, sym: xproto.Keysym(xgb.Get32(v[8:]))})
	}
	return slots
}

// reclaim tries again, since the other one may have gone.
func (in *Input) reclaim(k *keymap) error {
	if in.claimed {
		return nil
	}
	if err := in.claimSlots(); err != nil {
		return err
	}
	if !in.claimed {
		return ErrNoKeycodes
	}
	in.reconcileSlots(k)
	k.index(in.isSlot)
	return nil
}

// emptySlots gives all slots back.
func (in *Input) emptySlots() error {
	if !in.claimed || !slices.ContainsFunc(in.slots, func(s slot) bool { return s.sym != 0 }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), inputCloseLimit)
	defer cancel()
	if err := in.drain(ctx); err != nil {
		return fmt.Errorf("give keycodes back: %w", err)
	}
	if _, err := in.readKeymap(); err != nil {
		return err
	}
	var used []*slot
	for i := range in.slots {
		if s := &in.slots[i]; s.sym != 0 {
			*s = slot{stroke: s.stroke}
			used = append(used, s)
		}
	}
	if len(used) == 0 {
		return nil
	}
	return in.mapSlots(used)
}
