package x11_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestKeyboardCheck accepts common layouts, and restores a keyboard that a program has
// changed.
func TestKeyboardCheck(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "setxkbmap")
	s := testx11.Start(t, 320, 200)
	c := s.Dial(t)
	in, err := c.NewInput()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	usable := func(what string) {
		t.Helper()
		if missing, err := in.Keyboard.Check(); err != nil || missing != "" {
			t.Errorf("%s: Check() = %q, %v, want that it can be used", what, missing, err)
		}
	}
	usable("the first keyboard")
	for _, args := range [][]string{{"us"}, {"fr"}, {"ru"}, {"us,ru"}, {"gr"}, {"jp"}, {"us", "-variant", "dvorak"}, {"us", "-option", "ctrl:swapcaps"}, {"de"}} {
		cmd := exec.Command("setxkbmap", args...)
		cmd.Env = s.Env()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("setxkbmap %q: %v\n%s", args, err, out)
		}
		usable("setxkbmap " + args[0])
	}
	x := c.X()
	setup := xproto.Setup(x)
	first, count := setup.MinKeycode, setup.MaxKeycode-setup.MinKeycode+1
	keysyms := func() *xproto.GetKeyboardMappingReply {
		m, err := xproto.GetKeyboardMapping(x, first, byte(count)).Reply()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	modifiers := func() []xproto.Keycode {
		m, err := xproto.GetModifierMapping(x).Reply()
		if err != nil {
			t.Fatal(err)
		}
		codes := slices.Clone(m.Keycodes)
		slices.Sort(codes)
		return slices.Compact(codes)
	}
	want, wantModifiers := keysyms(), modifiers()
	if _, err := in.Keyboard.Type(soon(t), textOf("é漢"), 0); err != nil { // on keycodes that were empty
		t.Fatal(err)
	}
	usable("after typing")
	set := func(per byte, syms []xproto.Keysym) {
		if err := xproto.ChangeKeyboardMappingChecked(x, byte(count), first, per, syms).Check(); err != nil {
			t.Fatal(err)
		}
	}
	for _, damaged := range []struct {
		name   string
		damage func()
	}{
		// It comes first: restoring the keyboard empties the keycodes that were typed on.
		{"no keysyms", func() { set(1, make([]xproto.Keysym, count)) }},
		{"no empty keycode", func() {
			m := keysyms()
			for i := range int(count) {
				if row := m.Keysyms[i*int(m.KeysymsPerKeycode):]; row[0] == 0 {
					row[0] = 'x'
				}
			}
			set(m.KeysymsPerKeycode, m.Keysyms)
		}},
		{"no modifiers", func() {
			if r, err := xproto.SetModifierMapping(x, 1, make([]xproto.Keycode, 8)).Reply(); err != nil || r.Status != 0 {
				t.Fatal(r, err)
			}
		}},
	} {
		name := damaged.name
		damaged.damage()
		if missing, err := in.Keyboard.Check(); err != nil || missing == "" {
			t.Errorf("%s: Check() = %q, %v, want what is missing", name, missing, err)
		}
		if err := in.Keyboard.Restore(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		usable(name + ", restored")
		if diff := cmp.Diff(want.Keysyms, keysyms().Keysyms); diff != "" {
			t.Errorf("%s: keysyms are not as before (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(wantModifiers, modifiers()); diff != "" {
			t.Errorf("%s: modifiers are not as before (-want +got):\n%s", name, diff)
		}
	}
	if _, err := in.Keyboard.Type(soon(t), textOf("Aé"), 0); err != nil {
		t.Errorf("typing on the restored keyboard: %v", err)
	}
}

// TestKeyboardFewerKeycodes restores a keyboard that a program has left with fewer keycodes, while
// characters are on keycodes that were empty.
func TestKeyboardFewerKeycodes(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	last := func(want string) {
		t.Helper()
		if keymap := tool(t, b.server, "xkbcomp", "-xkb", b.server.Display, "-"); !strings.Contains(keymap, "maximum = "+want+";") {
			t.Fatalf("the last keycode is not %s:\n%.100s", want, keymap)
		}
	}
	check := func(want string) {
		t.Helper()
		if missing, err := b.in.Keyboard.Check(); err != nil || missing != want {
			t.Errorf("Check() = %q, %v, want %q", missing, err, want)
		}
	}
	check("")
	b.typed(t, "é")
	b.keys(t, 1)
	tool(t, b.server, "setxkbmap", "-keycodes", "sun(type6)")
	last("132")
	check("full range of keycodes")
	if err := b.in.Keyboard.Restore(); err != nil {
		t.Fatal(err)
	}
	last("255")
	check("")
	b.typed(t, "aB1é漢")
	if names, _ := b.keys(t, 5); strings.Join(names, "") != "aB1é漢" {
		t.Errorf("%q arrived", names)
	}
}

// TestKeyboardRestoredWithKeyDown restores the modifiers although a client that has ended has left
// a key down. A key that this Input holds stays down.
func TestKeyboardRestoredWithKeyDown(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	if missing, err := b.in.Keyboard.Check(); missing != "" || err != nil {
		t.Fatal(missing, err)
	}
	if err := b.in.Keyboard.KeyDown(t.Context(), chordOf("a")); err != nil {
		t.Fatal(err)
	}
	other := b.server.Dial(t)
	x := other.X()
	m, err := xproto.GetModifierMapping(x).Reply()
	if err != nil {
		t.Fatal(err)
	}
	per := int(m.KeycodesPerModifier)
	control := m.Keycodes[xproto.MapIndexControl*per : (xproto.MapIndexControl+1)*per]
	key := control[0]
	clear(control)
	if r, err := xproto.SetModifierMapping(x, m.KeycodesPerModifier, m.Keycodes).Reply(); err != nil || r.Status != xproto.MappingStatusSuccess {
		t.Fatal(r, err)
	}
	if err := xtest.FakeInputChecked(x, xproto.KeyPress, byte(key), 0, 0, 0, 0, 0).Check(); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if missing, err := b.in.Keyboard.Check(); missing != "Control" || err != nil {
		t.Errorf("Check() = %q, %v, want that Control is missing", missing, err)
	}
	if err := b.in.Keyboard.Restore(); err != nil {
		t.Fatal(err)
	}
	if missing, err := b.in.Keyboard.Check(); missing != "" || err != nil {
		t.Errorf("Check() = %q, %v after Restore", missing, err)
	}
	down, err := xproto.QueryKeymap(b.viewer.X()).Reply()
	if err != nil {
		t.Fatal(err)
	}
	const a = 38
	if isDown := func(code xproto.Keycode) bool { return down.Keys[code/8]>>(code%8)&1 != 0 }; isDown(key) || !isDown(a) {
		t.Errorf("Control is down: %v, and a: %v, want only a", isDown(key), isDown(a))
	}
}
