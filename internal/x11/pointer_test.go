package x11_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11"
	"github.com/deskhand/deskhand/internal/x11/quiesce"
)

func TestMoveAndPointer(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	root := xproto.Setup(b.viewer.X()).DefaultScreen(b.viewer.X()).Root
	for _, c := range []struct {
		to, want x11.Point
		top      xproto.Window
	}{
		{x11.Point{X: 0, Y: 0}, x11.Point{X: 0, Y: 0}, root},
		{x11.Point{X: 150, Y: 100}, x11.Point{X: 150, Y: 100}, b.win},
		{x11.Point{X: 1e6, Y: 1e6}, x11.Point{X: 639, Y: 479}, root},
		{x11.Point{X: -5, Y: 7}, x11.Point{X: 0, Y: 7}, root},
	} {
		if err := b.in.Pointer.Move(c.to.X, c.to.Y); err != nil {
			t.Fatal(err)
		}
		x, y, screen, top, err := b.in.Pointer.Position()
		if err != nil || (x11.Point{X: x, Y: y}) != c.want || screen != 0 || top != c.top {
			t.Errorf("Move(%v): pointer %d,%d on screen %d over %d, %v, want %v over %d", c.to, x, y, screen, top, err, c.want, c.top)
		}
	}
}

// TestPointerFrame finds the application's window inside a window manager's
// frame.
func TestPointerFrame(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.xterm(t)
	f, err := xproto.GetInputFocus(d.conn.X()).Reply()
	if err != nil {
		t.Fatal(err)
	}
	at, err := xproto.TranslateCoordinates(d.conn.X(), f.Focus, xproto.Setup(d.conn.X()).DefaultScreen(d.conn.X()).Root, 20, 20).Reply()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []x11.Point{
		{X: int(at.DstX), Y: int(at.DstY)},      // inside
		{X: int(at.DstX), Y: int(at.DstY) - 28}, // on the title
	} {
		if err := d.in.Pointer.Move(p.X, p.Y); err != nil {
			t.Fatal(err)
		}
		_, _, _, top, err := d.in.Pointer.Position()
		if err != nil {
			t.Fatal(err)
		}
		if class := d.property(t, top, "WM_CLASS"); !bytes.Contains(class, []byte("XTerm")) {
			t.Errorf("the window below the pointer at %v has class %q, want XTerm", p, class)
		}
	}
}

// TestPointedInOneRoundTrip finds the window under the pointer again with one round trip, and
// another window if the pointer or the windows have moved.
func TestPointedInOneRoundTrip(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	x, root := b.viewer.Raw()
	state, err := xproto.InternAtom(x, false, 8, "WM_STATE").Reply()
	if err != nil {
		t.Fatal(err)
	}
	window := func(parent xproto.Window, at int16, marked bool) xproto.Window {
		w, err := xproto.NewWindowId(x)
		if err != nil {
			t.Fatal(err)
		}
		err = xproto.CreateWindowChecked(x, 0, w, parent, at, at, 100, 100, 0, xproto.WindowClassInputOutput, 0, xproto.CwOverrideRedirect, []uint32{1}).Check()
		if marked {
			err = errors.Join(err, xproto.ChangePropertyChecked(x, xproto.PropModeReplace, w, state.Atom, state.Atom, 32, 2, make([]byte, 8)).Check())
		}
		if err = errors.Join(err, xproto.MapWindowChecked(x, w).Check()); err != nil {
			t.Fatal(err)
		}
		return w
	}
	frame := window(root, 0, false)
	first := window(frame, 0, true)
	second := window(root, 200, true)
	display := b.conn.Quiescence()
	batch, trips := display.Batch, 0
	display.Batch = func(send func()) { trips++; batch(send) }
	programs, err := quiesce.New(display)
	if err != nil {
		t.Fatal(err)
	}
	at := func(what string, want xproto.Window, most int) {
		t.Helper()
		trips = 0
		r, win, err := programs.Pointed()
		if err != nil || win != want || trips > most {
			t.Errorf("%s: %+v, window %d, %v in %d round trips, want %d in %d", what, r, win, err, trips, want, most)
		}
	}
	move := func(x, y int) {
		t.Helper()
		if err := b.in.Pointer.Move(x, y); err != nil {
			t.Fatal(err)
		}
	}
	move(5, 5)
	at("the first time", first, 3)
	at("again", first, 1)
	move(6, 6)
	at("another place in it", first, 1)
	move(250, 250)
	at("another window", second, 2)
	move(5, 5)
	at("the first window", first, 3)
	third := window(frame, 0, true) // above the first one
	at("another window in the frame", third, 2)
	if err := xproto.DestroyWindowChecked(x, frame).Check(); err != nil {
		t.Fatal(err)
	}
	at("no window", 0, 1)
}

func TestClickAndScroll(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	if err := b.in.Pointer.Move(200, 200); err != nil {
		t.Fatal(err)
	}
	b.take(t, 1)
	buttons := func(n int) (list []byte) {
		for i, ev := range b.take(t, 2*n) {
			switch ev := ev.(type) {
			case xproto.ButtonPressEvent:
				if i%2 != 0 {
					t.Fatal("press of a button that is down")
				}
				list = append(list, byte(ev.Detail))
			case xproto.ButtonReleaseEvent:
				if i%2 != 1 || byte(ev.Detail) != list[len(list)-1] {
					t.Fatal("release of a button that is not down")
				}
			}
		}
		return list
	}
	if err := b.in.Pointer.Click(3, 2); err != nil {
		t.Fatal(err)
	}
	if got := buttons(2); !bytes.Equal(got, []byte{3, 3}) {
		t.Errorf("double click: buttons %v", got)
	}
	if err := b.in.Pointer.Scroll(-2, 1); err != nil {
		t.Fatal(err)
	}
	if got := buttons(3); !bytes.Equal(got, []byte{5, 6, 6}) {
		t.Errorf("Scroll(-2, 1): buttons %v", got)
	}
	if err := b.in.Pointer.Scroll(1, -250); err != nil {
		t.Fatal(err)
	}
	if got := buttons(251); !bytes.Equal(got, append(bytes.Repeat([]byte{4}, 250), 7)) {
		t.Errorf("Scroll(1, -250): buttons %v", got)
	}
	for _, bad := range []int{0, -1, 256} {
		if b.in.Pointer.Click(bad, 1) == nil || b.in.Pointer.Button(bad, true) == nil {
			t.Errorf("button %d was accepted", bad)
		}
	}
}

func TestDrag(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	path := []x11.Point{{X: 120, Y: 80}, {X: 320, Y: 230}, {X: 310, Y: 230}}
	if err := b.in.Pointer.Drag(t.Context(), path, 1); err != nil {
		t.Fatal(err)
	}
	if got := b.mask(t); got != 0 {
		t.Errorf("after the drag %#x is down", got)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var at []x11.Point
	down := false
	for _, ev := range b.events {
		switch ev := ev.(type) {
		case xproto.ButtonPressEvent:
			if p := (x11.Point{X: int(ev.RootX), Y: int(ev.RootY)}); p != path[0] {
				t.Errorf("pressed at %v, want %v", p, path[0])
			}
			down, at = true, []x11.Point{path[0]}
		case xproto.MotionNotifyEvent:
			if down {
				at = append(at, x11.Point{X: int(ev.RootX), Y: int(ev.RootY)})
			}
		case xproto.ButtonReleaseEvent:
			if p := (x11.Point{X: int(ev.RootX), Y: int(ev.RootY)}); p != path[2] || !down {
				t.Errorf("released at %v, want %v", p, path[2])
			}
			down = false
		}
	}
	if len(at) < 30 {
		t.Fatalf("%d positions, want at least 30", len(at))
	}
	for i := 1; i < len(at); i++ {
		if step := math.Hypot(float64(at[i].X-at[i-1].X), float64(at[i].Y-at[i-1].Y)); step > 9.5 {
			t.Errorf("step of %.1f pixels from %v to %v", step, at[i-1], at[i])
		}
	}
}

func TestDragLong(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	var path []x11.Point
	for i := range 1000 {
		path = append(path, x11.Point{X: i % 2 * 639, Y: i * 479 / 1000})
	}
	if err := b.in.Pointer.Drag(t.Context(), path, 1); err != nil {
		t.Fatal(err)
	}
	if x, y, _, _, err := b.in.Pointer.Position(); err != nil || x != 639 || y != 478 || b.mask(t) != 0 {
		t.Errorf("after a drag of 1000 points: pointer %d,%d, %v", x, y, err)
	}
	if b.in.Pointer.Drag(t.Context(), nil, 1) == nil {
		t.Error("a drag without a path was accepted")
	}
}
