package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Keyboard presses keys, and types text.
type Keyboard struct {
	*device
	xkb     xkb
	slots   *slots
	keymap  *keymap // as last read
	strokes []typed
	held    []heldKey
	backup  *keyboardBackup // see Check

	windows *Windows // nil: no window manager is followed
	last    struct { // key that was sent
		to      xproto.Window // which had the focus
		at      time.Time
		presses bool // it may press a button
	}
}

// confirmTime is how long a file dialog of GTK 3 ignores Return and clicks on its default button
// after a change of its text: 200 to 300 ms were measured. For as long, GTK 3 shows a button as
// pressed for which a key stands, takes all other keys, and does then what the button does.
const confirmTime = 350 * time.Millisecond

// AwaitDialog waits until a dialog with the focus has taken the keys that it got, so that it
// does not ignore a key or a click that may confirm it.
func (kb *Keyboard) AwaitDialog(ctx context.Context) error {
	return kb.locked(func() error {
		_, err := kb.awaitInDialog(ctx)
		return err
	})
}

// AwaitPressed waits while a dialog may show a button as pressed for the last key.
func (kb *Keyboard) AwaitPressed(ctx context.Context) error {
	return kb.locked(func() (err error) {
		if kb.last.presses {
			_, err = kb.awaitInDialog(ctx)
		}
		return err
	})
}

const (
	// dialogPace is the time between looks whether a dialog still has the focus.
	dialogPace = 10 * time.Millisecond
	// dialogMost bounds the wait for a dialog of a program that is not idle.
	dialogMost = 3 * time.Second
)

// awaitInDialog waits while the dialog that got the last key has the focus, until confirmTime after
// that key, and then until its program is idle. It reports whether it waited.
func (kb *Keyboard) awaitInDialog(ctx context.Context) (waited bool, err error) {
	for {
		age, late := time.Since(kb.last.at), waited || kb.last.presses
		if age > dialogMost || age > confirmTime && !late || kb.windows == nil {
			return waited, nil
		}
		r, err := xproto.GetInputFocus(kb.c.x).Reply()
		if err != nil {
			return waited, request.Wrap("read the focus", err)
		}
		if r.Focus != kb.last.to || !kb.windows.activeIsDialog() {
			return waited, nil
		}
		if age > confirmTime {
			if _, idle, err := kb.programs.ShowsButton(); idle || err != nil {
				return waited, err
			}
		}
		waited = true
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-time.After(dialogPace):
		}
	}
}

// heldKey is a key that is down through this Keyboard.
type heldKey struct {
	code xproto.Keycode
	sym  xproto.Keysym
	by   xproto.Keysym // the key of the chord: sym, or one that needs Shift
}

func (kb *Keyboard) holding(code xproto.Keycode) bool {
	return slices.ContainsFunc(kb.held, func(h heldKey) bool { return h.code == code })
}

// heldByOthers returns the keys that are down, and that this Keyboard does not hold.
func (kb *Keyboard) heldByOthers() (codes []xproto.Keycode, err error) {
	r, err := xproto.QueryKeymap(kb.c.x).Reply()
	if err != nil {
		return nil, request.Wrap("read keys", err)
	}
	for i := range 256 {
		if code := xproto.Keycode(i); r.Keys[i/8]>>(i%8)&1 != 0 && !kb.holding(code) {
			codes = append(codes, code)
		}
	}
	return codes, nil
}

// close clears the keycodes that were used for characters.
func (kb *Keyboard) close() error {
	if !kb.slots.used() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeSlotsLimit)
	defer cancel()
	if err := kb.slots.drain(ctx); err != nil {
		return fmt.Errorf("give keycodes back: %w", err)
	}
	if _, err := kb.readKeymap(); err != nil {
		return err
	}
	return kb.slots.empty()
}

// closeSlotsLimit is how long close waits for applications that may look up slots.
const closeSlotsLimit = 2 * time.Second

// Press presses the keys of a chord in order and releases them in reverse order. Caps Lock
// has no effect on it. Modifiers that are down have.
func (kb *Keyboard) Press(ctx context.Context, ch Chord) (err error) {
	kb.mu.Lock()
	defer kb.mu.Unlock()
	k, err := kb.begin(ctx)
	if err != nil {
		return err
	}
	keys, err := kb.resolve(ctx, k, ch)
	if err != nil {
		return fmt.Errorf("press %s: %w", ch, err)
	}
	if !ch.locks() {
		restore := kb.neutralise(k, false)
		defer func() { err = errors.Join(err, restore()) }()
	}
	keys = slices.DeleteFunc(keys, func(h heldKey) bool { return k.pressed(h.code) && k.modifiers[h.code] != 0 })
	op := fmt.Sprintf("press %s", ch)
	modified := kb.following && k.modified(keys)
	kb.c.wire.cork()
	before := xproto.GetInputFocus(kb.c.x)
	for _, h := range keys {
		kb.fake(xproto.KeyPress, byte(h.code))
	}
	n := len(keys)
	for ; n > 0 && !(modified && k.modifiers[keys[n-1].code] != 0); n-- {
		kb.fake(xproto.KeyRelease, byte(keys[n-1].code))
	}
	err = kb.sent(before, op, modified || !ch.deletes())
	kb.last.presses = ch.pressesButton()
	if !modified {
		return err
	}
	kb.programs.ManagerMayAct()
	if n == 0 {
		return err
	}
	return errors.Join(err, kb.releaseModifiers(ctx, keys[:n], op))
}

// modified reports whether keys are pressed with a modifier other than Shift, so that they
// may be for the window manager.
func (k *keymap) modified(keys []heldKey) bool {
	bits := k.state.base
	for _, h := range keys {
		bits |= k.modifiers[h.code]
	}
	return bits&^(xproto.ModMaskShift|xproto.ModMaskLock) != 0
}

// releaseModifiers releases the modifiers of a chord, last first, when the window manager
// has seen the chord: it may have to grab the keyboard first, to show a list of windows
// until Alt is released.
func (kb *Keyboard) releaseModifiers(ctx context.Context, keys []heldKey, op string) error {
	err := kb.programs.AwaitManager(ctx)
	kb.c.wire.cork()
	for _, h := range slices.Backward(keys) {
		kb.fake(xproto.KeyRelease, byte(h.code))
	}
	kb.programs.ManagerMayAct()
	return errors.Join(err, kb.flush(op))
}

// sent uncorks, waits, and records the windows that got the keys. acts means that the keys
// may do more than change a text.
func (kb *Keyboard) sent(before xproto.GetInputFocusCookie, op string, acts bool) error {
	after := xproto.GetInputFocus(kb.c.x)
	if err := kb.c.wire.uncork(); err != nil {
		return request.Wrap(op, err)
	}
	for _, cookie := range []xproto.GetInputFocusCookie{before, after} {
		r, err := cookie.Reply()
		if err != nil {
			return request.Wrap(op, err)
		}
		if kb.slots.dirty {
			kb.programs.Typed(r.Focus)
		}
		if acts {
			kb.programs.Acted(r.Focus)
		}
		kb.last.to = r.Focus
	}
	kb.last.at, kb.last.presses = time.Now(), false
	return nil
}

// resolve finds the keys of a chord, with Shift before a key that needs it, and puts keys
// that the keyboard lacks on slots.
func (kb *Keyboard) resolve(ctx context.Context, k *keymap, ch Chord) ([]heldKey, error) {
	for i, sym := range ch.keys {
		if _, ok := k.where[sym]; ok || kb.slots.claimed && kb.slots.findSole(sym) != nil {
			continue
		}
		if isModifier(sym) {
			return nil, fmt.Errorf("the keymap has no key %s", keysymName(sym))
		}
		if err := kb.slots.assignSole(ctx, k, sym, ch.keys[:i], kb.holding); err != nil {
			return nil, err
		}
	}
	var keys []heldKey
	shift := k.state.base&xproto.ModMaskShift != 0
	for _, sym := range ch.keys {
		at, ok := k.where[sym]
		if !ok {
			s := kb.slots.findSole(sym)
			if s == nil { // a key that another program has recorded as a slot since
				return nil, ErrNoKeycodes
			}
			kb.slots.touch(s)
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

// KeyDown presses the keys of a chord in order, without releasing them.
func (kb *Keyboard) KeyDown(ctx context.Context, ch Chord) error {
	_, err := kb.keyDown(ctx, ch)
	return err
}

// keyDown returns the keys that it pressed. The others were down already.
func (kb *Keyboard) keyDown(ctx context.Context, ch Chord) ([]heldKey, error) {
	kb.mu.Lock()
	defer kb.mu.Unlock()
	k, err := kb.begin(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := kb.resolve(ctx, k, ch)
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", ch, err)
	}
	keys = slices.DeleteFunc(keys, func(h heldKey) bool { return kb.holding(h.code) })
	kb.c.wire.cork()
	before := xproto.GetInputFocus(kb.c.x)
	for _, h := range keys {
		kb.fake(xproto.KeyPress, byte(h.code))
	}
	kb.held = append(kb.held, keys...)
	modified := k.modified(keys)
	if modified {
		kb.programs.ManagerMayAct()
	}
	return keys, kb.sent(before, "hold "+ch.String(), modified || !ch.deletes())
}

// KeyUp releases the keys of a chord, last first.
func (kb *Keyboard) KeyUp(ctx context.Context, ch Chord) error {
	kb.mu.Lock()
	defer kb.mu.Unlock()
	if err := kb.use(); err != nil {
		return err
	}
	k, err := kb.readKeymap()
	if err != nil {
		return err
	}
	var codes []xproto.Keycode
	for _, sym := range slices.Backward(ch.keys) {
		codes = append(codes, kb.heldFor(k, sym)...)
	}
	return kb.releaseKeys(ctx, codes, "release "+ch.String())
}

// heldFor returns the keys that are down for a keysym or, if there are none, its key,
// which another client may hold.
func (kb *Keyboard) heldFor(k *keymap, sym xproto.Keysym) (codes []xproto.Keycode) {
	for _, h := range slices.Backward(kb.held) {
		if h.by == sym {
			codes = append(codes, h.code)
		}
	}
	if at, ok := k.where[sym]; ok && len(codes) == 0 {
		codes = append(codes, at.code)
	}
	return codes
}

// releaseKeys releases keys, even if ctx has ended.
func (kb *Keyboard) releaseKeys(ctx context.Context, codes []xproto.Keycode, op string) error {
	if len(codes) == 0 {
		return nil
	}
	if err := kb.programs.AwaitManager(ctx); err != nil {
		kb.c.log.Debug("keys are released before the window manager has seen them", "error", err)
	}
	kb.c.wire.cork()
	for _, code := range codes {
		kb.fake(xproto.KeyRelease, byte(code))
	}
	kb.held = slices.DeleteFunc(kb.held, func(h heldKey) bool {
		ours := slices.Contains(codes, h.code)
		if ours && isModifier(h.sym) {
			kb.programs.ManagerMayAct()
		}
		return ours
	})
	return kb.flush(op)
}

// HoldModifiers presses modifiers that are not down. release releases them, even if ctx
// has ended. The error is a *KeyError if a name is not a modifier.
func (kb *Keyboard) HoldModifiers(ctx context.Context, names []string) (release func() error, err error) {
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
	keys, err := kb.keyDown(ctx, ch)
	if err != nil {
		return nil, err
	}
	var codes []xproto.Keycode
	for _, h := range slices.Backward(keys) {
		codes = append(codes, h.code)
	}
	return func() error {
		kb.mu.Lock()
		defer kb.mu.Unlock()
		still := slices.DeleteFunc(codes, func(code xproto.Keycode) bool { return !kb.holding(code) })
		codes = nil
		return kb.releaseKeys(ctx, still, "release modifiers")
	}, nil
}
