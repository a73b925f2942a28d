package x11_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
)

// tool runs a program on the display and returns its output.
func tool(t *testing.T, s *testx11.Server, name string, args ...string) string {
	t.Helper()
	testx11.Require(t, name)
	cmd := exec.Command(name, args...)
	cmd.Env = s.Env()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

// TestKeymapUnharmed compares the server's keymap, all groups, levels and
// types, before an Input and after it.
func TestKeymapUnharmed(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"us", "de", "us,ru", "us,ru,gr"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			tool(t, b.server, "setxkbmap", "-layout", layout)
			before := tool(t, b.server, "xkbcomp", "-xkb", b.server.Display, "-")
			text := cjkText(3, 20) + "aAzZ[é@ж"
			b.typed(t, text)
			names, _ := b.keys(t, 28)
			if got := strings.Join(names, ""); got != text {
				t.Errorf("got %q, want %q", got, text)
			}
			if before == tool(t, b.server, "xkbcomp", "-xkb", b.server.Display, "-") {
				t.Error("no keycode was used for characters, so that this test says nothing")
			}
			if err := b.in.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, tool(t, b.server, "xkbcomp", "-xkb", b.server.Display, "-")); diff != "" {
				t.Errorf("the keymap has changed: %s", diff)
			}
		})
	}
}

// TestTypeInOtherGroup types while a layout other than the first is in effect.
func TestTypeInOtherGroup(t *testing.T) {
	t.Parallel()
	for group := range byte(3) {
		b := newBoard(t)
		tool(t, b.server, "setxkbmap", "-layout", "us,de,ru")
		if err := b.in.LockGroup(group); err != nil {
			t.Fatal(err)
		}
		const text = "zyZY-_äöÄж漢@"
		b.typed(t, text)
		names, states := b.keys(t, 12)
		if got := strings.Join(names, ""); got != text {
			t.Errorf("group %d: got %q, want %q", group, got, text)
		}
		if group < 2 && states[0]>>13&3 != uint16(group) {
			t.Errorf("group %d: typed with group %d", group, states[0]>>13&3)
		}
		if got := b.mask(t) >> 13 & 3; got != uint16(group) {
			t.Errorf("group %d was in effect, and is %d after typing", group, got)
		}
	}
}

// TestKeymapChangesBetween types, replaces the keymap by another program, and types again.
func TestKeymapChangesBetween(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	for _, layout := range []string{"us", "fr", "de", "us"} {
		tool(t, b.server, "setxkbmap", "-layout", layout)
		const text = "azqwyz1!^é漢ß"
		b.typed(t, text)
		names, _ := b.keys(t, 12)
		if got := strings.Join(names, ""); got != text {
			t.Errorf("layout %s: got %q, want %q", layout, got, text)
		}
	}
}

func TestTypeWithoutFocus(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	for _, focus := range []xproto.Window{xproto.InputFocusNone, xproto.InputFocusPointerRoot} {
		if err := xproto.SetInputFocusChecked(b.viewer.X(), 0, focus, xproto.TimeCurrentTime).Check(); err != nil {
			t.Fatal(err)
		}
		if err := b.in.Pointer.Move(630, 470); err != nil { // away from the window
			t.Fatal(err)
		}
		b.typed(t, cjkText(5, 100)) // without a wait
		b.take(t, 0)
	}
}
