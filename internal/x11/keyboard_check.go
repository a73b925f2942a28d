package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// keyboardBackup is a usable keyboard: its keysyms, with all levels and groups, and its
// modifiers.
type keyboardBackup struct {
	keymap  *keymap // as the core protocol shows it, with the modifiers
	entries keyEntries
}

// setRecomputeActions has the server compute what keys such as Shift_L do ("The X Keyboard
// Extension: Protocol Specification", SetMap).
const setRecomputeActions = 1 << 1

// Check returns a key that every layout has and this keyboard lacks, such as Return,
// because a program has changed it, or that keycodes are missing. It returns "" if the keyboard
// can be used, and keeps it for Restore. It also returns "" while input is being sent.
func (kb *Keyboard) Check() (missing string, err error) {
	if !kb.mu.TryLock() {
		return "", nil
	}
	defer kb.mu.Unlock()
	if err := kb.use(); err != nil {
		return "", err
	}
	k, err := kb.readKeymap()
	if _, fewer := errors.AsType[xproto.ValueError](err); fewer { // a program has changed the range
		return "full range of keycodes", nil
	}
	if err != nil {
		return "", err
	}
	if missing := kb.lacks(k); missing != "" {
		return missing, nil
	}
	if kb.backup != nil && kb.backup.keymap.same(k) {
		return "", nil
	}
	entries, err := kb.xkb.entries(k.first, k.first+xproto.Keycode(k.codes()-1))
	if err != nil {
		return "", err
	}
	for i := range entries.entries {
		if kb.slots.has(entries.first + xproto.Keycode(i)) {
			entries.entries[i] = keyEntry(0, 0)
		}
	}
	kb.backup = &keyboardBackup{k, entries}
	return "", nil
}

// lacks returns the first key that a keymap lacks, or "".
func (kb *Keyboard) lacks(k *keymap) string {
	if k.shift == 0 {
		return "Shift"
	}
	for _, sym := range []xproto.Keysym{keyReturn, keyBackSpace, keyTab, keyEscape, ' '} {
		if _, ok := k.where[sym]; !ok {
			return keysymName(sym)
		}
	}
	control := false
	for i := range k.codes() {
		code := k.first + xproto.Keycode(i)
		row := k.row(code)
		control = control || k.modifiers[code]&xproto.ModMaskControl != 0 &&
			(slices.Contains(row, keyControlL) || slices.Contains(row, keyControlR))
	}
	switch {
	case !control:
		return "Control"
	case kb.slots.claimed && len(kb.slots.all) == 0:
		return "unused keycode"
	}
	return ""
}

// Restore restores the last usable keyboard that Check saw. It releases keys that other clients
// hold down if these prevent it.
func (kb *Keyboard) Restore() error { return kb.locked(kb.restore) }

func (kb *Keyboard) restore() error {
	if kb.backup == nil {
		return fmt.Errorf("restore keyboard: none is known that could be used")
	}
	cookie, err := kb.xkb.setEntries(kb.backup.entries, setRecomputeActions)
	if err != nil {
		return fmt.Errorf("restore keyboard: %w", err)
	}
	if err := request.Wrap("restore keysyms", cookie.Check()); err != nil {
		return err
	}
	if err := kb.restoreModifiers(); err != nil {
		return err
	}
	k, err := kb.readKeymap()
	if err != nil {
		return err
	}
	if missing := kb.lacks(k); missing != "" {
		return fmt.Errorf("restore keyboard: it still has no %s", missing)
	}
	return nil
}

// restoreModifiers sets the modifiers of the backup. The X server refuses that while a key is down:
// restoreModifiers then releases the keys that other clients hold, and tries once more.
func (kb *Keyboard) restoreModifiers() error {
	m := kb.backup.keymap.mapping
	for again := true; ; again = false {
		r, err := xproto.SetModifierMapping(kb.c.x, m.KeycodesPerModifier, m.Keycodes).Reply()
		switch {
		case err != nil:
			return request.Wrap("restore modifiers", err)
		case r.Status == xproto.MappingStatusSuccess:
			return nil
		case !again || r.Status != xproto.MappingStatusBusy:
			return fmt.Errorf("restore modifiers: the X server refuses with status %d: a key is held down", r.Status)
		}
		others, err := kb.heldByOthers()
		if err != nil {
			return err
		}
		if err := kb.releaseKeys(context.Background(), others, "release keys"); err != nil {
			return err
		}
	}
}
