package x11_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// board is a display without a window manager, an Input, and a window that has
// the focus and keeps all its input events. The window belongs to a separate connection.
type board struct {
	server *testx11.Server
	conn   *x11.Conn
	in     *x11.Input
	viewer *x11.Conn
	win    xproto.Window

	mu     sync.Mutex
	events []xgb.Event
}

// textOf is a text that can be typed.
func textOf(s string) x11.Text {
	text, err := x11.ParseText(s)
	if err != nil {
		panic(err)
	}
	return text
}

// chordOf is a chord with a valid name.
func chordOf(s string) x11.Chord {
	chord, err := x11.ParseChord(s)
	if err != nil {
		panic(err)
	}
	return chord
}

func newBoard(t *testing.T) *board {
	t.Helper()
	s := testx11.Start(t, 640, 480)
	b := &board{server: s, conn: s.Dial(t), viewer: s.Dial(t)}
	x := b.viewer.X()
	root := xproto.Setup(x).DefaultScreen(x).Root
	var err error
	if b.win, err = xproto.NewWindowId(x); err != nil {
		t.Fatal(err)
	}
	mask := uint32(xproto.EventMaskKeyPress | xproto.EventMaskKeyRelease | xproto.EventMaskButtonPress | xproto.EventMaskButtonRelease | xproto.EventMaskPointerMotion)
	b.viewer.Handle(func(ev xgb.Event) {
		switch ev.(type) {
		case xproto.KeyPressEvent, xproto.KeyReleaseEvent, xproto.ButtonPressEvent, xproto.ButtonReleaseEvent, xproto.MotionNotifyEvent:
			b.mu.Lock()
			b.events = append(b.events, ev)
			b.mu.Unlock()
		}
	})
	if err := xproto.CreateWindowChecked(x, 0, b.win, root, 100, 50, 400, 300, 0, xproto.WindowClassInputOutput, 0,
		xproto.CwEventMask, []uint32{mask}).Check(); err != nil {
		t.Fatal(err)
	}
	xproto.MapWindow(x, b.win)
	if err := xproto.SetInputFocusChecked(x, xproto.InputFocusNone, b.win, xproto.TimeCurrentTime).Check(); err != nil {
		t.Fatal(err)
	}
	if err := b.viewer.UseXkb(); err != nil {
		t.Fatal(err)
	}
	b.in = b.input(t, b.conn)
	return b
}

func (b *board) input(t *testing.T, c *x11.Conn) *x11.Input {
	t.Helper()
	in, err := c.NewInput()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return in
}

// take waits for n events and removes them. It fails if there are more.
func (b *board) take(t *testing.T, n int) []xgb.Event {
	t.Helper()
	poll(t, "events", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.events) >= n
	})
	if err := b.viewer.Sync(); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.events
	b.events = nil
	if len(got) != n {
		t.Fatalf("%d events, want %d: %v", len(got), n, got)
	}
	return got
}

// keys waits until as many keys were released as pressed, and n characters
// were pressed, and reads the presses with the keymap as it is.
func (b *board) keys(t *testing.T, n int) (names []string, states []uint16) {
	t.Helper()
	x := b.viewer.X()
	setup := xproto.Setup(x)
	m, err := xproto.GetKeyboardMapping(x, setup.MinKeycode, byte(setup.MaxKeycode-setup.MinKeycode+1)).Reply()
	if err != nil {
		t.Fatal(err)
	}
	per := int(m.KeysymsPerKeycode)
	poll(t, "keys", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		names, states = nil, nil
		down := map[xproto.Keycode]bool{}
		for _, ev := range b.events {
			switch ev := ev.(type) {
			case xproto.KeyPressEvent:
				if down[ev.Detail] {
					t.Fatalf("keycode %d was pressed twice", ev.Detail)
				}
				down[ev.Detail] = true
				row := m.Keysyms[int(ev.Detail-setup.MinKeycode)*per:][:per]
				level := int(ev.State&xproto.ModMaskShift) + 2*int(ev.State>>13&3)
				name := x11.KeysymName(row[level])
				if strings.HasPrefix(name, "Shift") {
					continue
				}
				names, states = append(names, name), append(states, ev.State)
			case xproto.KeyReleaseEvent:
				delete(down, ev.Detail)
			}
		}
		return len(names) >= n && len(down) == 0
	})
	b.mu.Lock()
	b.events = nil
	b.mu.Unlock()
	if len(names) != n {
		t.Fatalf("%d keys, want %d: %q", len(names), n, names)
	}
	return names, states
}

// mask returns the modifiers and buttons that are down, and the group.
func (b *board) mask(t *testing.T) uint16 {
	t.Helper()
	r, err := xproto.QueryPointer(b.viewer.X(), b.win).Reply()
	if err != nil {
		t.Fatal(err)
	}
	return r.Mask
}

func (b *board) press(t *testing.T, keys string) {
	t.Helper()
	ch, err := x11.ParseChord(keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.in.Keyboard.Press(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
}

func (b *board) typed(t *testing.T, text string) {
	t.Helper()
	n, err := b.in.Keyboard.Type(t.Context(), textOf(text), 0)
	if want := utf8.RuneCountInString(text); err != nil || n != want {
		t.Fatalf("Type(%q) = %d, %v, want %d", text, n, err, want)
	}
}

func TestTypeKeys(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	const text = "aBc é漢!É1é 😀"
	b.typed(t, text)
	names, _ := b.keys(t, 12)
	want := []string{"a", "B", "c", "space", "é", "漢", "!", "É", "1", "é", "space", "😀"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestTypeControlCharacters(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.typed(t, "a\tb\r\nc\n\b\x1bd")
	names, _ := b.keys(t, 9)
	if diff := cmp.Diff([]string{"a", "Tab", "b", "Return", "c", "Return", "BackSpace", "Escape", "d"}, names); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"ab\x00", "ab\x7f", "ab\x01", "ab\u0085", "ab\xff", "ab\xed\xa0\x80"} {
		parsed, err := x11.ParseText(bad)
		var text *x11.TextError
		if n := parsed.Len(); n != 0 || !errors.As(err, &text) || text.Offset != 2 {
			t.Errorf("ParseText(%q) = %d, %v, want a *TextError at 2", bad, n, err)
		}
	}
	b.typed(t, "\ufffd")
	b.keys(t, 1)
}

func TestTypeIgnoresLocksAndModifiers(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.press(t, "Caps_Lock")
	b.press(t, "Num_Lock")
	b.keys(t, 2)
	release, err := b.in.Keyboard.HoldModifiers(t.Context(), []string{"ctrl", "shift"})
	if err != nil {
		t.Fatal(err)
	}
	b.typed(t, "aBé")
	held := b.mask(t)
	if want := uint16(xproto.ModMaskLock | xproto.ModMaskControl | xproto.ModMaskShift | xproto.ModMask2); held != want {
		t.Errorf("after typing the modifiers are %#x, want %#x as before", held, want)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal("second release:", err)
	}
	names, states := b.keys(t, 3+2) // Control is pressed before and after
	if diff := cmp.Diff([]string{"Control_L", "a", "B", "é", "Control_L"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint16{0, xproto.ModMaskShift, 0}, states[1:4]); diff != "" {
		t.Error("modifiers of the characters:", diff)
	}
	if got := b.mask(t); got != xproto.ModMaskLock|xproto.ModMask2 {
		t.Errorf("after release the modifiers are %#x, want the locks", got)
	}
	// A chord with Caps Lock on.
	b.press(t, "a")
	if _, states := b.keys(t, 1); states[0] != 0 {
		t.Errorf("chord with modifiers %#x, want none", states[0])
	}
	b.press(t, "Caps_Lock")
	if got := b.mask(t); got&xproto.ModMaskLock != 0 {
		t.Error("Caps_Lock does not unlock")
	}
}

func TestPressChords(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	const ctrl, shift, alt = xproto.ModMaskControl, xproto.ModMaskShift, xproto.ModMask1
	for _, c := range []struct {
		keys   string
		names  []string
		states []uint16
	}{
		{"ctrl+shift+t", []string{"Control_L", "T"}, []uint16{0, ctrl | shift}},
		{"A", []string{"A"}, []uint16{shift}},
		{"ctrl+A", []string{"Control_L", "a"}, []uint16{0, ctrl}},
		{"ctrl++", []string{"Control_L", "+"}, []uint16{0, ctrl | shift}},
		{"alt+é", []string{"Alt_L", "é"}, []uint16{0, alt}},
		{"shift+漢", []string{"漢"}, []uint16{shift}},
		{"XF86AudioPlay", []string{"XF86AudioPlay"}, []uint16{0}},
		{"F24", []string{"F24"}, []uint16{0}},
		{"Page_Down", []string{"Page_Down"}, []uint16{0}},
	} {
		b.press(t, c.keys)
		names, states := b.keys(t, len(c.names))
		if !slices.Equal(names, c.names) || !slices.Equal(states, c.states) {
			t.Errorf("%s: keys %q with modifiers %#x, want %q with %#x", c.keys, names, states, c.names, c.states)
		}
	}
}

func TestHoldAndReleaseAll(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	ctx := t.Context()
	for _, key := range []string{"ctrl", "A", "é"} {
		if err := b.in.Keyboard.KeyDown(ctx, chordOf(key)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.in.Pointer.Button(1, true); err != nil {
		t.Fatal(err)
	}
	const want = xproto.ModMaskControl | xproto.ModMaskShift | xproto.KeyButMaskButton1
	if got := b.mask(t); got != want {
		t.Errorf("held: %#x, want %#x", got, want)
	}
	if err := b.in.Keyboard.KeyUp(ctx, chordOf("A")); err != nil {
		t.Fatal(err)
	}
	if got := b.mask(t); got != want&^xproto.ModMaskShift {
		t.Errorf("after the release of A: %#x, want %#x", got, want&^xproto.ModMaskShift)
	}
	b.typed(t, strings.Repeat("漢字", 3)) // must not take the slot of é
	if err := b.in.ReleaseAll(); err != nil {
		t.Fatal(err)
	}
	r, err := xproto.QueryKeymap(b.viewer.X()).Reply()
	if err != nil {
		t.Fatal(err)
	}
	if got := b.mask(t); got != 0 || slices.Max(r.Keys) != 0 {
		t.Errorf("after ReleaseAll: modifiers %#x, keys %v", got, r.Keys)
	}
	if _, err := b.in.Keyboard.HoldModifiers(t.Context(), []string{"ctrl", "a"}); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("HoldModifiers of a: %v, want an error that names it", err)
	}
	if got := b.mask(t); got != 0 {
		t.Errorf("a refused HoldModifiers left %#x", got)
	}
}

// TestReleaseAllOfOthers: keys and buttons that another client has left down.
func TestReleaseAllOfOthers(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	other := b.input(t, b.server.Dial(t))
	down := func() (keys byte, mask uint16) {
		t.Helper()
		r, err := xproto.QueryKeymap(b.viewer.X()).Reply()
		if err != nil {
			t.Fatal(err)
		}
		return slices.Max(r.Keys), b.mask(t)
	}
	for _, key := range []string{"e", "shift"} {
		if err := other.Keyboard.KeyDown(t.Context(), chordOf(key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, button := range []int{1, 3} {
		if err := other.Pointer.Button(button, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.in.Release(); err != nil {
		t.Fatal(err)
	}
	const want = xproto.ModMaskShift | xproto.KeyButMaskButton1 | xproto.KeyButMaskButton3
	if keys, mask := down(); keys == 0 || mask != want {
		t.Errorf("after Release: key %#x, mask %#x, want %#x", keys, mask, want)
	}
	if err := b.in.ReleaseAll(); err != nil {
		t.Fatal(err)
	}
	if keys, mask := down(); keys != 0 || mask != 0 {
		t.Errorf("after ReleaseAll: key %#x, mask %#x", keys, mask)
	}
}

func TestTypeDelayAndCancel(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	start := time.Now()
	if n, err := b.in.Keyboard.Type(t.Context(), textOf("abé漢"), 20*time.Millisecond); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	if took := time.Since(start); took < 60*time.Millisecond {
		t.Errorf("4 characters with 20 ms between took %v", took)
	}
	b.keys(t, 4)
	ctx, cancel := context.WithCancel(t.Context())
	b.viewer.Handle(func(ev xgb.Event) {
		if _, ok := ev.(xproto.KeyReleaseEvent); ok {
			cancel()
		}
	})
	n, err := b.in.Keyboard.Type(ctx, textOf("abcdef"), time.Minute)
	if n != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Type = %d, %v, want 1, %v", n, err, context.Canceled)
	}
	b.keys(t, 1)
	if n, err := b.in.Keyboard.Type(ctx, textOf("abc"), 0); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Type with a cancelled context = %d, %v", n, err)
	}
}

func TestInputAfterClose(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	if err := b.in.Keyboard.KeyDown(t.Context(), chordOf("a")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := b.in.Keyboard.Type(t.Context(), textOf("a"), 0); n != 0 || err == nil {
		t.Errorf("Type after Close = %d, %v", n, err)
	}
	if b.in.Pointer.Move(1, 1) == nil || b.in.Pointer.Click(1, 1) == nil || b.in.Keyboard.KeyDown(t.Context(), chordOf("a")) == nil {
		t.Error("input after Close succeeded")
	}
}
