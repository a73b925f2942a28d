package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jezek/xgb/xproto"
)

// Press presses the keys of a chord one after the other and releases them in
// the opposite order. Caps Lock has no effect on it; modifiers that are down
// have.
func (in *Input) Press(ctx context.Context, ch Chord) (err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	k, err := in.begin(ctx)
	if err != nil {
		return err
	}
	keys, err := in.resolve(ctx, k, ch)
	if err != nil {
		return fmt.Errorf("press %s: %w", ch, err)
	}
	if !ch.locks() {
		restore := in.neutralise(k, false)
		defer func() { err = errors.Join(err, restore()) }()
	}
	keys = slices.DeleteFunc(keys, func(h heldKey) bool { return k.pressed(h.code) && k.modifiers[h.code] != 0 })
	op := fmt.Sprintf("press %s", ch)
	modified := in.windows != nil && k.modified(keys)
	in.c.wire.cork()
	before := xproto.GetInputFocus(in.c.x)
	for _, h := range keys {
		in.fake(xproto.KeyPress, byte(h.code))
	}
	n := len(keys)
	for ; n > 0 && !(modified && k.modifiers[keys[n-1].code] != 0); n-- {
		in.fake(xproto.KeyRelease, byte(keys[n-1].code))
	}
	err = in.sent(before, op, modified || !ch.edits())
	if !modified {
		return err
	}
	in.unsettle()
	if n == 0 {
		return err
	}
	return errors.Join(err, in.releaseModifiers(ctx, keys[:n], op))
}

// modified says whether keys are pressed with a modifier other than Shift, so
// that they may be meant for the window manager.
func (k *keymap) modified(keys []heldKey) bool {
	bits := k.state.base
	for _, h := range keys {
		bits |= k.modifiers[h.code]
	}
	return bits&^(xproto.ModMaskShift|xproto.ModMaskLock) != 0
}

// releaseModifiers lets go of the modifiers of a chord, last first, when the
// window manager has seen the chord: one that shows a list of windows until Alt
// is released must have grabbed the keyboard before that.
func (in *Input) releaseModifiers(ctx context.Context, keys []heldKey, op string) error {
	err := in.awaitManager(ctx)
	in.c.wire.cork()
	for i := len(keys) - 1; i >= 0; i-- {
		in.fake(xproto.KeyRelease, byte(keys[i].code))
	}
	in.unsettle()
	return errors.Join(err, in.flush(op))
}

// sent uncorks, waits, and notes who got the keys. acts says that these may do
// more than change a text.
func (in *Input) sent(before xproto.GetInputFocusCookie, op string, acts bool) error {
	after := xproto.GetInputFocus(in.c.x)
	if err := in.c.wire.uncork(); err != nil {
		return wrap(op, err)
	}
	for _, cookie := range []xproto.GetInputFocusCookie{before, after} {
		r, err := cookie.Reply()
		if err != nil {
			return wrap(op, err)
		}
		in.await(r.Focus)
		if acts {
			in.acted.note(r.Focus)
		}
	}
	return nil
}

// resolve finds the keys of a chord, and puts those that the keyboard lacks on
// slots. Where a key needs Shift, Shift comes before it.
func (in *Input) resolve(ctx context.Context, k *keymap, ch Chord) ([]heldKey, error) {
	for i, sym := range ch.keys {
		if _, ok := k.where[sym]; ok || in.claimed && in.soleSlotFor(sym) != nil {
			continue
		}
		if isModifier(sym) {
			return nil, fmt.Errorf("the keymap has no key %s", keysymName(sym))
		}
		if err := in.assignSole(ctx, k, sym, ch.keys[:i]); err != nil {
			return nil, err
		}
	}
	var keys []heldKey
	shift := k.state.base&xproto.ModMaskShift != 0
	for _, sym := range ch.keys {
		at, ok := k.where[sym]
		if !ok {
			s := in.soleSlotFor(sym)
			in.touch(s)
			at = s.stroke
		}
		if at.shift && !shift {
			keys = append(keys, heldKey{k.shift, keyShiftL, sym})
			shift = true
		}
		if k.modifiers[at.code]&xproto.ModMaskShift != 0 {
			shift = true
		}
		if !slices.ContainsFunc(keys, func(h heldKey) bool { return h.code == at.code }) {
			keys = append(keys, heldKey{at.code, sym, sym})
		}
	}
	return keys, nil
}

// KeyDown presses a key, or the keys of a chord in order, and leaves them down.
func (in *Input) KeyDown(ctx context.Context, key string) error {
	ch, err := ParseChord(key)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	_, err = in.keyDown(ctx, ch)
	return err
}

// keyDown says which keys it pressed: those that were not down already.
func (in *Input) keyDown(ctx context.Context, ch Chord) ([]heldKey, error) {
	k, err := in.begin(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := in.resolve(ctx, k, ch)
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", ch, err)
	}
	keys = slices.DeleteFunc(keys, func(h heldKey) bool { return in.holding(h.code) })
	in.c.wire.cork()
	before := xproto.GetInputFocus(in.c.x)
	for _, h := range keys {
		in.fake(xproto.KeyPress, byte(h.code))
	}
	in.held = append(in.held, keys...)
	modified := k.modified(keys)
	if modified {
		in.unsettle()
	}
	return keys, in.sent(before, "hold "+ch.String(), modified || !ch.edits())
}

// KeyUp releases a key, or the keys of a chord, last first.
func (in *Input) KeyUp(ctx context.Context, key string) error {
	ch, err := ParseChord(key)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return err
	}
	k, err := in.readKeymap()
	if err != nil {
		return err
	}
	var codes []xproto.Keycode
	for i := len(ch.keys) - 1; i >= 0; i-- {
		codes = append(codes, in.heldFor(k, ch.keys[i])...)
	}
	return in.releaseKeys(ctx, codes, "release "+ch.String())
}

// heldFor is the keys that are down for a keysym; when there are none, the key
// that has it, which another client may hold.
func (in *Input) heldFor(k *keymap, sym xproto.Keysym) (codes []xproto.Keycode) {
	for i := len(in.held) - 1; i >= 0; i-- {
		if in.held[i].by == sym {
			codes = append(codes, in.held[i].code)
		}
	}
	if at, ok := k.where[sym]; ok && len(codes) == 0 {
		codes = append(codes, at.code)
	}
	return codes
}

// releaseKeys lets go of keys, even when ctx has ended.
func (in *Input) releaseKeys(ctx context.Context, codes []xproto.Keycode, op string) error {
	if len(codes) == 0 {
		return nil
	}
	if err := in.awaitManager(ctx); err != nil {
		in.c.log.Debug("keys are released before the window manager has seen them", "error", err)
	}
	in.c.wire.cork()
	for _, code := range codes {
		in.fake(xproto.KeyRelease, byte(code))
	}
	in.held = slices.DeleteFunc(in.held, func(h heldKey) bool {
		ours := slices.Contains(codes, h.code)
		if ours && isModifier(h.sym) {
			in.unsettle()
		}
		return ours
	})
	return in.flush(op)
}

// HoldModifiers presses modifiers, which release lets go of, also when ctx has
// ended. Those that were down already stay as they are. *KeyError: a name is not
// that of a modifier.
func (in *Input) HoldModifiers(ctx context.Context, names []string) (release func() error, err error) {
	var ch Chord
	for _, name := range names {
		one, err := ParseChord(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(one.keys, func(sym xproto.Keysym) bool { return !isModifier(sym) }) {
			return nil, &KeyError{Name: name, Problem: "is not a modifier"}
		}
		ch.keys = append(ch.keys, one.keys...)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	keys, err := in.keyDown(ctx, ch)
	if err != nil {
		return nil, err
	}
	var codes []xproto.Keycode
	for i := len(keys) - 1; i >= 0; i-- {
		codes = append(codes, keys[i].code)
	}
	return func() error {
		in.mu.Lock()
		defer in.mu.Unlock()
		still := slices.DeleteFunc(codes, func(code xproto.Keycode) bool { return !in.holding(code) })
		codes = nil
		return in.releaseKeys(ctx, still, "release modifiers")
	}, nil
}
