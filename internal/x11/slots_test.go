package x11_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11"
)

// TestSlotsOfEndedInput types more characters than there are slots, after an Input that was
// not closed, and while another Input is in use.
func TestSlotsOfEndedInput(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.typed(t, "漢字é中文")
	b.keys(t, 5)
	second := b.input(t, b.server.Dial(t))
	if n, err := second.Keyboard.Type(t.Context(), textOf("ab中"), 0); n != 2 || !errors.Is(err, x11.ErrNoKeycodes) {
		t.Fatalf("Type beside another Input = %d, %v, want 2, %v", n, err, x11.ErrNoKeycodes)
	}
	b.keys(t, 2)
	if err := b.conn.Close(); err != nil { // as when its program is killed
		t.Fatal(err)
	}
	text := cjkText(1, 50)
	poll(t, "the server to notice", func() bool {
		n, err := second.Keyboard.Type(t.Context(), textOf(text), 0)
		if errors.Is(err, x11.ErrNoKeycodes) {
			b.keys(t, n)
			return false
		}
		if err != nil || n != 50 {
			t.Fatal(n, err)
		}
		return true
	})
	names, _ := b.keys(t, 50)
	if got := strings.Join(names, ""); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}

// TestLargeKeymap: a keymap that does not fit into a request is refused, and none of its bytes are
// sent.
func TestLargeKeymap(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	if missing, err := b.in.Keyboard.Check(); missing != "" || err != nil {
		t.Fatal(missing, err)
	}
	b.in.Keyboard.GrowBackup(4 * 0x10000)
	if err := b.in.Keyboard.Restore(); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("Restore = %v, want that the keymap is too large", err)
	}
	if err := b.conn.Sync(); err != nil {
		t.Error(err)
	}
	b.typed(t, "a漢")
}

// TestTypeWithoutShift types a character again that has a slot with Shift, after a program has taken
// Shift off the keyboard.
func TestTypeWithoutShift(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.typed(t, "漢字")
	b.keys(t, 2)
	x := b.viewer.X()
	m, err := xproto.GetModifierMapping(x).Reply()
	if err != nil {
		t.Fatal(err)
	}
	clear(m.Keycodes[:m.KeycodesPerModifier])
	if _, err := xproto.SetModifierMapping(x, m.KeycodesPerModifier, m.Keycodes).Reply(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"漢", "字"} {
		if n, err := b.in.Keyboard.Type(soon(t), textOf(text), 0); n != 1 || err != nil {
			t.Errorf("Type(%q) = %d, %v", text, n, err)
		}
		if names, _ := b.keys(t, 1); names[0] != text {
			t.Errorf("got %q, want %q", names, text)
		}
	}
}

// TestKeyBecomesSlot: another program takes a key away by recording it as a slot, after the chord's
// other keys were found.
func TestKeyBecomesSlot(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	second := b.input(t, b.server.Dial(t))
	x := b.viewer.X()
	root := xproto.Setup(x).DefaultScreen(x).Root
	record, err := xproto.InternAtom(x, false, uint16(len("_DESKHAND_KEYCODES")), "_DESKHAND_KEYCODES").Reply()
	if err != nil {
		t.Fatal(err)
	}
	const key, a, ccedilla = 38, 'a', 0xe7
	if err := xproto.ChangeKeyboardMappingChecked(x, 1, key, 2, []xproto.Keysym{a, ccedilla}).Check(); err != nil {
		t.Fatal(err)
	}
	euro := chordOf("a+U20AC")
	err = second.Keyboard.ResolveAfter(t.Context(), euro, func() {
		data := []byte{key, 0, 0, 0, a, 0, 0, 0, ccedilla, 0, 0, 0}
		if err := xproto.ChangePropertyChecked(x, xproto.PropModeReplace, root, record.Atom, xproto.AtomCardinal, 32, 3, data).Check(); err != nil {
			t.Fatal(err)
		}
		if err := b.conn.Close(); err != nil { // it had the slots
			t.Fatal(err)
		}
		poll(t, "the server to notice", func() bool {
			r, err := xproto.GetSelectionOwner(x, record.Atom).Reply()
			return err == nil && r.Owner == 0
		})
	})
	if !errors.Is(err, x11.ErrNoKeycodes) {
		t.Errorf("a chord whose key has become a slot: %v, want %v", err, x11.ErrNoKeycodes)
	}
	if err := second.Keyboard.Press(t.Context(), euro); err != nil {
		t.Errorf("the same chord again: %v", err)
	}
}
