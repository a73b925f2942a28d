package x11_test

import (
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11"
)

func TestUntilSeparate(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	at, near, far := x11.Point{X: 200, Y: 200}, x11.Point{X: 204, Y: 203}, x11.Point{X: 250, Y: 200}
	until := func(button int, p x11.Point, presses int) time.Duration {
		return b.in.Pointer.UntilSeparate(button, p, presses).Round(400 * time.Millisecond)
	}
	if got := until(1, at, 1); got != 0 {
		t.Errorf("before any click: %v", got)
	}
	if err := b.in.Pointer.Move(at.X, at.Y); err != nil {
		t.Fatal(err)
	}
	if err := b.in.Pointer.Scroll(0, 1); err != nil {
		t.Fatal(err)
	}
	if got := until(5, at, 1); got != 0 {
		t.Errorf("after the wheel: %v", got)
	}
	if err := b.in.Pointer.Click(1, 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		button  int
		at      x11.Point
		presses int
		want    time.Duration
	}{
		{"the same spot", 1, near, 1, 400 * time.Millisecond},
		{"another button", 3, at, 1, 0},
		{"elsewhere", 1, far, 1, 0},
		{"a double click elsewhere", 1, far, 2, 400 * time.Millisecond},
	} {
		if got := until(c.button, c.at, c.presses); got > c.want || got < 0 || got == 0 && c.want > 0 {
			t.Errorf("%s: wait %v, want %v", c.what, got, c.want)
		}
	}
	settings(t, b, "Net/CursorBlinkTime", 9000, "Net/DoubleClickTime", 1600)
	if got := until(1, at, 1); got < 800*time.Millisecond || got > 1600*time.Millisecond {
		t.Errorf("with a longer time of the settings daemon: wait %v", got)
	}
}

// settings makes the viewer's connection a settings daemon with integers.
func settings(t *testing.T, b *board, pairs ...any) {
	t.Helper()
	le32 := func(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)} }
	value := append(make([]byte, 8), le32(uint32(len(pairs)/2))...)
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		value = append(value, 0, 0, byte(len(name)), 0)
		value = append(value, name...)
		value = append(value, make([]byte, (4-len(name)%4)%4+4)...)
		value = append(value, le32(uint32(pairs[i+1].(int)))...)
	}
	x := b.viewer.X()
	atom := func(name string) xproto.Atom {
		r, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
		if err != nil {
			t.Fatal(err)
		}
		return r.Atom
	}
	kind := atom("_XSETTINGS_SETTINGS")
	if err := xproto.ChangePropertyChecked(x, xproto.PropModeReplace, b.win, kind, kind, 8, uint32(len(value)), value).Check(); err != nil {
		t.Fatal(err)
	}
	if err := xproto.SetSelectionOwnerChecked(x, b.win, atom("_XSETTINGS_S0"), 0).Check(); err != nil {
		t.Fatal(err)
	}
}
