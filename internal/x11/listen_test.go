package x11_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"
)

// wants selects events of the board's window, or of another one.
func (b *board) wants(t *testing.T, win xproto.Window, mask uint32) {
	t.Helper()
	if err := xproto.ChangeWindowAttributesChecked(b.viewer.X(), win, xproto.CwEventMask, []uint32{mask}).Check(); err != nil {
		t.Fatal(err)
	}
}

// TestKeysWithoutListener types into a window whose program selects its keys only later, and
// into a window whose program never does.
func TestKeysWithoutListener(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	typing := func(text string) time.Duration {
		t.Helper()
		begin := time.Now()
		unheard, err := b.in.Unheard()
		if err == nil && unheard != 0 {
			err = b.in.AwaitListener(t.Context(), unheard)
		}
		if err == nil {
			_, err = b.in.Keyboard.Type(t.Context(), textOf(text), 0)
		}
		if err != nil {
			t.Error(err)
		}
		return time.Since(begin)
	}
	keys := uint32(xproto.EventMaskKeyPress | xproto.EventMaskKeyRelease)
	for range 3 {
		b.wants(t, b.win, xproto.EventMaskKeyRelease)
		typed := func() error { typing("ab"); return nil }
		if err := heldUp(t, "keys", func() { b.wants(t, b.win, keys) }, typed); err != nil {
			t.Fatal(err)
		}
		if names, _ := b.keys(t, 2); !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("got %q", names)
		}
	}
	b.wants(t, b.win, 0)
	if first, again := typing("c"), typing("d"); again > first/2 {
		t.Errorf("waited %v for a window that wants no keys, and %v again", first, again)
	}

	// A window inside it selects them, while the pointer is there.
	x := b.viewer.X()
	inner, err := xproto.NewWindowId(x)
	if err != nil {
		t.Fatal(err)
	}
	if err := xproto.CreateWindowChecked(x, 0, inner, b.win, 10, 10, 100, 100, 0, xproto.WindowClassInputOutput, 0,
		xproto.CwEventMask, []uint32{keys}).Check(); err != nil {
		t.Fatal(err)
	}
	if err := xproto.MapWindowChecked(x, inner).Check(); err != nil {
		t.Fatal(err)
	}
	if err := b.in.Pointer.Move(150, 100); err != nil {
		t.Fatal(err)
	}
	typing("e")
	if names, _ := b.keys(t, 1); !slices.Equal(names, []string{"e"}) {
		t.Errorf("got %q", names)
	}
	if b.in.Waited(b.win) {
		t.Error("keys of a window inside count as unwanted")
	}
	if err := xproto.DestroyWindowChecked(x, inner).Check(); err != nil {
		t.Fatal(err)
	}
	typing("f")
	if !b.in.Waited(b.win) {
		t.Error("keys without a listener count as wanted")
	}
	b.in.Shown(b.win)
	if b.in.Waited(b.win) {
		t.Error("a new window of the same number counts as the old one")
	}
}
