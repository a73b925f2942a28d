package x11_test

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11"
)

// TestClicksApart has the presses of one Click at different times: Chromium
// takes presses of the same millisecond for one.
func TestClicksApart(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	if err := b.in.Pointer.Move(200, 200); err != nil {
		t.Fatal(err)
	}
	b.take(t, 1)
	if err := b.in.Pointer.Click(1, 3); err != nil {
		t.Fatal(err)
	}
	var times []xproto.Timestamp
	for _, ev := range b.take(t, 6) {
		if press, ok := ev.(xproto.ButtonPressEvent); ok {
			times = append(times, press.Time)
		}
	}
	if compact := slices.Compact(slices.Clone(times)); len(compact) != 3 {
		t.Errorf("three presses at %v", times)
	}
}

// answersPings has the board's window ask for pings, of which each goes to the
// channel; answer answers one.
func (b *board) answersPings(t *testing.T) (pings <-chan xproto.ClientMessageEvent, answer func(xproto.ClientMessageEvent)) {
	t.Helper()
	x := b.viewer.X()
	root := xproto.Setup(x).DefaultScreen(x).Root
	atom := func(name string) xproto.Atom {
		a, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
		if err != nil {
			t.Fatal(err)
		}
		return a.Atom
	}
	protocols, ping := atom("WM_PROTOCOLS"), atom("_NET_WM_PING")
	value := make([]byte, 4)
	xgb.Put32(value, uint32(ping))
	if err := xproto.ChangePropertyChecked(x, xproto.PropModeReplace, b.win, protocols, xproto.AtomAtom, 32, 1, value).Check(); err != nil {
		t.Fatal(err)
	}
	got := make(chan xproto.ClientMessageEvent, 16)
	b.viewer.Handle(func(ev xgb.Event) {
		if m, ok := ev.(xproto.ClientMessageEvent); ok && m.Type == protocols {
			got <- m
		}
	})
	return got, func(m xproto.ClientMessageEvent) {
		m.Window = root
		mask := uint32(xproto.EventMaskSubstructureNotify) // EWMH
		if m.Data.Data32[1]%2 == 1 {
			mask = xproto.EventMaskStructureNotify // Qt
		}
		xproto.SendEvent(x, false, root, mask|xproto.EventMaskSubstructureRedirect, string(m.Bytes()))
	}
}

// TestQuiesce waits for the application that got a click or a key which may do
// more than change a text, once, and for no other.
func TestQuiesce(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	pings, answer := b.answersPings(t)
	if err := b.in.Pointer.Move(200, 200); err != nil {
		t.Fatal(err)
	}
	chord := func(keys string) func() error {
		ch, err := x11.ParseChord(keys)
		if err != nil {
			t.Fatal(err)
		}
		return func() error { return b.in.Keyboard.Press(t.Context(), ch) }
	}
	text := func(s string) func() error {
		return func() error { _, err := b.in.Keyboard.Type(t.Context(), textOf(s), 0); return err }
	}
	for _, c := range []struct {
		name string
		act  func() error
		wait bool
	}{
		{"nothing", func() error { return nil }, false},
		{"click", func() error { return b.in.Pointer.Click(1, 1) }, true},
		{"nothing more", func() error { return nil }, false},
		{"button down", func() error { return b.in.Pointer.Button(1, true) }, true},
		{"move with a button down", func() error { return b.in.Pointer.Move(210, 210) }, true},
		{"button up", func() error { return b.in.Pointer.Button(1, false) }, true},
		{"move", func() error { return b.in.Pointer.Move(220, 220) }, false},
		{"text", text("some text"), false},
		{"text with Return", text("text\n"), true},
		{"copy", chord("ctrl+c"), true},
		{"a key that may be a menu's", chord("o"), true},
		{"arrow", chord("Down"), true}, // in a spreadsheet, a key that follows at once would come first
		{"delete", chord("BackSpace"), false},
		{"key down", func() error { return b.in.Keyboard.KeyDown(t.Context(), chordOf("Escape")) }, true},
	} {
		if err := c.act(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		quiesced := make(chan error, 1)
		go func() { quiesced <- b.in.Quiesce(t.Context()) }()
		if c.wait {
			select {
			case m := <-pings:
				select {
				case err := <-quiesced:
					t.Fatalf("%s: it ended before the application had answered: %v", c.name, err)
				default:
				}
				answer(m)
			case err := <-quiesced:
				t.Fatalf("%s: it ended without having asked the application: %v", c.name, err)
			}
		}
		if err := <-quiesced; err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(pings) > 0 {
			t.Errorf("%s: the application was asked once too often", c.name)
		}
	}
}

// TestQuiesceUnresponsive: Quiesce returns although an application does not answer, faster
// if the application did not answer the last time either, and ends with its context.
func TestQuiesceUnresponsive(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.answersPings(t)
	if err := b.in.Pointer.Move(200, 200); err != nil {
		t.Fatal(err)
	}
	quiesce := func(ctx context.Context) (time.Duration, error) {
		if err := b.in.Pointer.Click(1, 1); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err := b.in.Quiesce(ctx)
		return time.Since(begin), err
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := quiesce(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Quiesce with a context that has ended: %v", err)
	}
	first, err := quiesce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := quiesce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again > first/2 {
		t.Errorf("waited %v for an application that does not answer, and %v again", first, again)
	}
}

// newPointedDesk returns a desk whose pointer is on the first of two terminals, and that has
// handled all input.
func newPointedDesk(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	d.in.Follow(d.windows)
	at, _ := d.twoTerminals(t)
	if err := d.in.Pointer.Move(at[0].X, at[0].Y); err != nil {
		t.Fatal(err)
	}
	if err := d.in.Quiesce(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestHungManager: the first wait for a window manager that hangs takes the full limit, later
// waits are short, and a wait ends with the context or the window manager.
func TestHungManager(t *testing.T) {
	t.Parallel()
	d := newPointedDesk(t)
	manager := d.managerPID(t)
	goOn := stopped(t, manager)
	typing := func(ctx context.Context) time.Duration {
		if err := d.in.Pointer.Click(1, 1); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := d.in.Keyboard.Type(ctx, textOf("x"), 0); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		return time.Since(begin)
	}
	ctx, cancel := context.WithCancel(t.Context())
	release, err := d.in.Keyboard.HoldModifiers(ctx, []string{"alt"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	begin := time.Now()
	if err := release(); err != nil {
		t.Error(err)
	}
	ended := time.Since(begin)
	first, again := typing(t.Context()), typing(t.Context())
	if ended > first/2 || again > first/2 {
		t.Errorf("waited %v with a context that had ended, %v at first, and %v again", ended, first, again)
	}
	goOn()
	if err := d.in.Pointer.Click(1, 1); err != nil { // now it answers
		t.Fatal(err)
	}
	poll(t, "answer", func() bool { return typing(t.Context()) < first/2 })
	stopped(t, manager)
	typed := make(chan time.Duration, 1)
	go func() { typed <- typing(t.Context()) }()
	if err := syscall.Kill(manager, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if took := <-typed; took > first*2/3 {
		t.Errorf("waited %v for a window manager that has died", took)
	}
}

// TestMoveAfterClick moves the pointer while the window manager has not seen the
// click before: the server holds that back, and the pointer is where it was.
func TestMoveAfterClick(t *testing.T) {
	t.Parallel()
	d := newPointedDesk(t)
	goOn := stopped(t, d.managerPID(t))
	if err := d.in.Pointer.Click(1, 1); err != nil {
		t.Fatal(err)
	}
	if err := heldUp(t, "quiescing", goOn, func() error { return d.in.QuiescePointer(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	if err := d.in.Pointer.Move(5, 700); err != nil {
		t.Fatal(err)
	}
	if x, y, _, _, err := d.in.Pointer.Position(); err != nil || x != 5 || y != 700 {
		t.Errorf("the pointer is at %d,%d, %v", x, y, err)
	}
}
