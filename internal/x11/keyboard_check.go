package x11

import (
	"fmt"
	"slices"

	"github.com/jezek/xgb/xproto"
)

// keyboardBackup is the keys of a keyboard that can be used: their keysyms, with
// all levels and groups, and their modifiers.
type keyboardBackup struct {
	keymap    *keymap // as the core protocol shows it
	entries   keyEntries
	modifiers *xproto.GetModifierMappingReply
}

// setRecomputeActions has the server work out anew what keys such as Shift_L do
// ("The X Keyboard Extension: Protocol Specification", SetMap).
const setRecomputeActions = 1 << 1

// CheckKeyboard returns what a keyboard lacks that every layout has, such as a key
// for Return: a program may have changed the keyboard and then exited. It returns ""
// if the keyboard can be used, and keeps it for RestoreKeyboard. It also returns ""
// while input is being sent.
func (in *Input) CheckKeyboard() (missing string, err error) {
	if !in.mu.TryLock() {
		return "", nil
	}
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return "", err
	}
	k, err := in.readKeymap()
	if err != nil {
		return "", err
	}
	if missing := in.lacks(k); missing != "" {
		return missing, nil
	}
	if in.backup != nil && in.backup.keymap.same(k) {
		return "", nil
	}
	entries, err := in.xkb.entries(k.first, k.first+xproto.Keycode(k.codes()-1))
	if err != nil {
		return "", err
	}
	for i := range entries.entries {
		if in.isSlot(entries.first + xproto.Keycode(i)) {
			entries.entries[i] = keyEntry(0, 0)
		}
	}
	modifiers, err := xproto.GetModifierMapping(in.c.x).Reply()
	if err != nil {
		return "", wrap("read modifier mapping", err)
	}
	in.backup = &keyboardBackup{k, entries, modifiers}
	return "", nil
}

// lacks returns the first key that a keymap lacks, or "". It ignores keys that differ
// between layouts, such as letters.
func (in *Input) lacks(k *keymap) string {
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
	case in.claimed && len(in.slots) == 0:
		return "unused keycode"
	}
	return ""
}

// RestoreKeyboard restores the last usable keyboard that CheckKeyboard saw.
func (in *Input) RestoreKeyboard() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return err
	}
	if in.backup == nil {
		return fmt.Errorf("restore keyboard: none is known that could be used")
	}
	m := in.backup.modifiers
	if err := wrap("restore keysyms", in.xkb.setEntries(in.backup.entries, setRecomputeActions).Check()); err != nil {
		return err
	}
	r, err := xproto.SetModifierMapping(in.c.x, m.KeycodesPerModifier, m.Keycodes).Reply()
	if err != nil {
		return wrap("restore modifiers", err)
	}
	if r.Status != xproto.MappingStatusSuccess {
		return fmt.Errorf("restore modifiers: the X server refuses with status %d: a key is held down", r.Status)
	}
	k, err := in.readKeymap()
	if err != nil {
		return err
	}
	if missing := in.lacks(k); missing != "" {
		return fmt.Errorf("restore keyboard: it still has no %s", missing)
	}
	return nil
}
