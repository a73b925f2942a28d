package x11

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// ErrNoKeycodes is returned if a character is not on the keyboard and no keycode is unused,
// or another program's Input has the unused keycodes.
var ErrNoKeycodes = errors.New("no unused keycode is left for characters that are not on the keyboard")

// slot is one level, with or without Shift, of an empty keycode, for characters that are
// not on the keyboard. A level without a character has the keysym of the other level, so
// that Shift has no effect.
type slot struct {
	stroke
	sym   xproto.Keysym // 0: none
	used  uint64        // when, as a count of uses
	dirty bool          // pressed since the last drain, so an application may still look it up
}

// slots holds the two levels, without and with Shift, of each empty keycode of a keymap.
type slots struct {
	*device
	xkb     xkb
	record  xproto.Atom   // the property that write writes
	window  xproto.Window // owns the selection of claim
	all     []slot
	claimed bool   // by this Input
	tick    uint64 // counts uses
	dirty   bool   // a slot was pressed since the last drain
}

// newSlots prepares the use of empty keycodes.
func newSlots(d *device, x xkb) (*slots, error) {
	sl := &slots{device: d, xkb: x}
	var err error
	if sl.record, err = d.c.atom("_DESKHAND_KEYCODES"); err != nil {
		return nil, err
	}
	if sl.window, err = request.HiddenWindow(d.c.x, d.c.root, 0); err != nil {
		return nil, err
	}
	return sl, sl.claim()
}

// reconcile updates the list of slots to a keymap, which other programs may have changed.
// The two levels of a keycode follow each other in the list.
func (sl *slots) reconcile(k *keymap) {
	if !sl.claimed {
		return // they belong to another Input
	}
	for i := 0; i < len(sl.all); {
		pair := sl.all[i : i+2]
		switch code := pair[0].code; {
		case k.empty(code):
			pair[0].sym, pair[1].sym = 0, 0
		case !k.holds(code, pair):
			sl.all = slices.Delete(sl.all, i, i+2)
			continue
		}
		i += 2
	}
	if k.per < 2 {
		return
	}
	for i := range k.codes() {
		if code := k.first + xproto.Keycode(i); k.empty(code) && !sl.has(code) {
			sl.all = append(sl.all, slot{stroke: stroke{code, false}}, slot{stroke: stroke{code, true}})
		}
	}
}

// holds reports whether a keycode has the keysyms of its two slots.
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

// level returns the keysym of a level, given the other level of its keycode.
func (s slot) level(other slot) xproto.Keysym {
	if s.sym == 0 {
		return other.sym
	}
	return s.sym
}

func (sl *slots) has(code xproto.Keycode) bool {
	return slices.ContainsFunc(sl.all, func(s slot) bool { return s.code == code })
}

// find returns the slot of a keysym that the keymap's keys reach, or nil.
func (sl *slots) find(k *keymap, sym xproto.Keysym) *slot {
	if i := slices.IndexFunc(sl.all, func(s slot) bool { return s.sym == sym && s.reached(k) }); i >= 0 {
		return &sl.all[i]
	}
	return nil
}

// reached reports whether the keymap has the Shift that a slot needs.
func (s slot) reached(k *keymap) bool { return !s.shift || k.shift != 0 }

// findSole returns the slot of a keysym that Shift does not change, or nil.
func (sl *slots) findSole(sym xproto.Keysym) *slot {
	for i := 0; i < len(sl.all); i += 2 {
		if sl.all[i].sym == sym && sl.all[i+1].sym == 0 {
			return &sl.all[i]
		}
	}
	return nil
}

// touch records a use.
func (sl *slots) touch(s *slot) {
	sl.tick++
	s.used, s.dirty, sl.dirty = sl.tick, true, true
}

// assign gives slots to as many of the keysyms as possible, at least to the first.
// Applications look up a slot only when they handle its key events, so a slot that was
// used gets another keysym only after drain. Keycodes that are down do not change.
func (sl *slots) assign(ctx context.Context, k *keymap, need []xproto.Keysym, down func(xproto.Keycode) bool) error {
	if err := sl.reclaim(k); err != nil {
		return err
	}
	var free []*slot
	for i := range sl.all {
		s := &sl.all[i]
		if !s.reached(k) || down(s.code) {
			continue
		}
		if s.sym == 0 || !slices.Contains(need, s.sym) {
			free = append(free, s)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(need), func(sym xproto.Keysym) bool { return sl.find(k, sym) != nil })
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
		if err := sl.drain(ctx); err != nil {
			return err
		}
		clean = len(free)
	}
	free = free[:min(clean, len(missing))]
	for i, s := range free {
		*s = slot{stroke: s.stroke, sym: missing[i]}
	}
	return sl.put(free)
}

// assignSole puts a keysym on both levels of a keycode.
func (sl *slots) assignSole(ctx context.Context, k *keymap, sym xproto.Keysym, keep []xproto.Keysym, down func(xproto.Keycode) bool) error {
	if err := sl.reclaim(k); err != nil {
		return err
	}
	best := -1
	for i := 0; i < len(sl.all); i += 2 {
		a, b := &sl.all[i], &sl.all[i+1]
		if down(a.code) || slices.Contains(keep, a.sym) && b.sym == 0 {
			continue
		}
		if best < 0 || latest(a, b).compare(latest(&sl.all[best], &sl.all[best+1])) < 0 {
			best = i
		}
	}
	if best < 0 {
		return ErrNoKeycodes
	}
	a, b := &sl.all[best], &sl.all[best+1]
	if a.dirty || b.dirty {
		if err := sl.drain(ctx); err != nil {
			return err
		}
	}
	*a, *b = slot{stroke: a.stroke, sym: sym}, slot{stroke: b.stroke}
	return sl.put([]*slot{a})
}

// compare orders slots for assign: empty ones, then clean ones, then dirty ones, each the
// longest unused first.
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

// latest returns the later one in the order of compare.
func latest(a, b *slot) *slot {
	if a.compare(b) > 0 {
		return a
	}
	return b
}

// put sends the slots to the server. It uses one request, because every application reads the
// whole keymap after each request. The request spans the keycodes from the first to the last
// slot and leaves the keycodes between them unchanged. The core protocol's request has fewer
// levels and would change these.
func (sl *slots) put(changed []*slot) error {
	lo, hi := changed[0].code, changed[0].code
	for _, s := range changed {
		lo, hi = min(lo, s.code), max(hi, s.code)
	}
	span, err := sl.xkb.entries(lo, hi)
	if err != nil {
		return err
	}
	for _, s := range changed {
		i := slices.IndexFunc(sl.all, func(o slot) bool { return o.code == s.code })
		a, b := sl.all[i], sl.all[i+1]
		span.entries[s.code-lo] = keyEntry(a.level(b), b.level(a))
	}
	sl.c.wire.cork()
	cookie, err := sl.xkb.setEntries(span, 0)
	if err != nil {
		return errors.Join(err, sl.c.wire.uncork())
	}
	sl.write()
	if err := sl.flush("change keyboard mapping"); err != nil {
		return err
	}
	return request.Wrap("change keyboard mapping", cookie.Check())
}

// write records the slots on the root window, so that the next program can distinguish the
// slots of a killed one from the keyboard's own keys.
func (sl *slots) write() {
	var data []byte
	n := uint32(0)
	for i := 0; i < len(sl.all); i += 2 {
		if a, b := sl.all[i], sl.all[i+1]; a.sym|b.sym != 0 {
			for _, v := range []uint32{uint32(a.code), uint32(a.sym), uint32(b.sym)} {
				data = binary.LittleEndian.AppendUint32(data, v)
			}
			n += 3
		}
	}
	xproto.ChangeProperty(sl.c.x, xproto.PropModeReplace, sl.c.root, sl.record, xproto.AtomCardinal, 32, n, data)
}

// claim reserves the keymap's empty keycodes for this Input, unless another Input has them:
// two would overwrite each other's characters. The reservation is the ownership of a
// selection, which ends with its client. claim also takes over the slots of an Input that has
// ended.
func (sl *slots) claim() error {
	c := sl.c
	xproto.GrabServer(c.x) // no other client may claim the slots after the query
	owner, err := xproto.GetSelectionOwner(c.x, sl.record).Reply()
	if err == nil && owner.Owner == 0 {
		xproto.SetSelectionOwner(c.x, sl.window, sl.record, xproto.TimeCurrentTime)
		sl.claimed = true
	}
	xproto.UngrabServer(c.x)
	if err != nil {
		return request.Wrap("claim keycodes", err)
	}
	if !sl.claimed {
		return nil
	}
	left, err := sl.ask().Reply()
	if err != nil {
		return request.Wrap("read left keycodes", err)
	}
	sl.all = sl.read(left)
	return nil
}

func (sl *slots) ask() xproto.GetPropertyCookie {
	return xproto.GetProperty(sl.c.x, false, sl.c.root, sl.record, xproto.AtomCardinal, 0, 3*256)
}

// read returns what write recorded. It skips keycodes that the keyboard does not
// have: any program can write them.
func (sl *slots) read(r *xproto.GetPropertyReply) (list []slot) {
	setup := xproto.Setup(sl.c.x)
	for v := request.Words(r); len(v) >= 3; v = v[3:] {
		code := xproto.Keycode(v[0])
		if v[0] < uint32(setup.MinKeycode) || v[0] > uint32(setup.MaxKeycode) ||
			slices.ContainsFunc(list, func(s slot) bool { return s.code == code }) {
			continue
		}
		list = append(list, slot{stroke: stroke{code, false}, sym: xproto.Keysym(v[1])}, slot{stroke: stroke{code, true}, sym: xproto.Keysym(v[2])})
	}
	return list
}

// reclaim claims the slots if another Input had them and has ended.
func (sl *slots) reclaim(k *keymap) error {
	if sl.claimed {
		return nil
	}
	if err := sl.claim(); err != nil {
		return err
	}
	if !sl.claimed {
		return ErrNoKeycodes
	}
	sl.reconcile(k)
	k.index(sl.has)
	return nil
}

// drain waits until applications have taken the keys of slots.
func (sl *slots) drain(ctx context.Context) error {
	if err := sl.programs.Drain(ctx); err != nil {
		return err
	}
	for i := range sl.all {
		sl.all[i].dirty = false
	}
	sl.dirty = false
	return nil
}

// used reports whether a slot has a character.
func (sl *slots) used() bool {
	return sl.claimed && slices.ContainsFunc(sl.all, func(s slot) bool { return s.sym != 0 })
}

// empty clears all slots. The caller has drained them and read the keymap.
func (sl *slots) empty() error {
	var used []*slot
	for i := range sl.all {
		if s := &sl.all[i]; s.sym != 0 {
			*s = slot{stroke: s.stroke}
			used = append(used, s)
		}
	}
	if len(used) == 0 {
		return nil
	}
	return sl.put(used)
}
