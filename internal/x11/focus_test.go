package x11_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11"
	"github.com/deskhand/deskhand/internal/x11/request"
)

// managerPID is the process of the desk's window manager.
func (d *desk) managerPID(t *testing.T) int {
	t.Helper()
	root := xproto.Setup(d.conn.X()).DefaultScreen(d.conn.X()).Root
	check := d.property(t, root, "_NET_SUPPORTING_WM_CHECK")
	if len(check) != 4 {
		t.Fatalf("_NET_SUPPORTING_WM_CHECK: %v", check)
	}
	pid := d.in.ProcessOf(xproto.Window(xgb.Get32(check)))
	if pid <= 1 {
		t.Fatalf("process of the window manager: %d", pid)
	}
	return pid
}

// stopped stops a process until the caller calls the returned function.
func stopped(t *testing.T, pid int) (goOn func()) {
	t.Helper()
	send := func(s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatalf("%v to %d: %v", s, pid, err)
		}
	}
	send(syscall.SIGSTOP)
	return func() { send(syscall.SIGCONT) }
}

// heldUp starts f while a process is stopped, for which f must wait, and returns the result
// of f after the process has continued.
func heldUp(t *testing.T, what string, goOn func(), f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		t.Errorf("%s: it did not wait (%v)", what, err)
		done <- err
	case <-time.After(100 * time.Millisecond):
	}
	goOn()
	return <-done
}

// twoTerminals opens two terminals side by side. The second has the focus.
func (d *desk) twoTerminals(t *testing.T) (at [2]x11.Point, received [2]func() string) {
	t.Helper()
	for i := range received {
		received[i] = d.xterm(t)
		var list []x11.WindowInfo
		poll(t, "terminal's window", func() bool {
			var err error
			list, err = d.windows.List(t.Context())
			return err == nil && len(list) == i+1 && list[i].Active
		})
		info, err := d.windows.Move(t.Context(), list[i].ID, 20+600*i, 100)
		if err != nil {
			t.Fatal(err)
		}
		at[i] = x11.Point{X: info.X + 50, Y: info.Y + 50}
	}
	return at, received
}

// TestKeysAfterClick clicks and types without a pause while the window manager, which gives
// a clicked window the focus, is stopped: the keys must wait for it.
func TestKeysAfterClick(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.in.Follow(d.windows)
	at, received := d.twoTerminals(t)
	manager := d.managerPID(t)
	chord, err := x11.ParseChord("s")
	if err != nil {
		t.Fatal(err)
	}
	want := [2]string{}
	for _, c := range []struct {
		name   string
		clicks []int // on which terminals, before the keys
		held   bool  // the button stays down at the last one
		keys   func() error
		text   string
	}{
		{"text", []int{0}, false, func() error { _, err := d.in.Keyboard.Type(t.Context(), textOf("first"), 0); return err }, "first"},
		{"chord", []int{1}, false, func() error { return d.in.Keyboard.Press(t.Context(), chord) }, "s"},
		{"key down", []int{0}, false, func() error { return d.in.Keyboard.KeyDown(t.Context(), chordOf("u")) }, "u"},
		{"many clicks", []int{0, 1, 0, 1}, false, func() error { _, err := d.in.Keyboard.Type(t.Context(), textOf("many"), 0); return err }, "many"},
		{"held button", []int{0, 1, 0}, true, func() error { _, err := d.in.Keyboard.Type(t.Context(), textOf("held"), 0); return err }, "held"},
	} {
		goOn := stopped(t, manager)
		for i, k := range c.clicks {
			if err := d.in.Pointer.Move(at[k].X, at[k].Y); err != nil {
				t.Fatal(err)
			}
			if c.held && i == len(c.clicks)-1 {
				err = d.in.Pointer.Button(1, true)
			} else {
				err = d.in.Pointer.Click(1, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := heldUp(t, c.name, goOn, c.keys); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := d.in.ReleaseAll(); err != nil {
			t.Fatal(err)
		}
		k := c.clicks[len(c.clicks)-1]
		want[k] += c.text
		poll(t, c.name, func() bool { return len(received[0]())+len(received[1]()) >= len(want[0])+len(want[1]) })
		for i := range received {
			if got := received[i](); got != want[i] {
				t.Fatalf("%s: terminal %d got %q, want %q", c.name, i, got, want[i])
			}
		}
	}
}

// TestKeysWhileManagerHasFocus types while the window manager has taken the focus from a window that
// was destroyed, and has not yet given it to the next one: the keys must wait.
func TestKeysWhileManagerHasFocus(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.in.Follow(d.windows)
	_, received := d.twoTerminals(t)
	d.typeText(t, "before") // after that, no window is new
	list, err := d.windows.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := d.conn.X()
	root := xproto.Setup(x).DefaultScreen(x).Root
	check := xproto.Window(xgb.Get32(d.property(t, root, "_NET_SUPPORTING_WM_CHECK")))
	goOn := stopped(t, d.managerPID(t))
	if err := xproto.SetInputFocusChecked(x, xproto.InputFocusPointerRoot, check, xproto.TimeCurrentTime).Check(); err != nil {
		t.Fatal(err)
	}
	active, err := xproto.InternAtom(x, false, 18, "_NET_ACTIVE_WINDOW").Reply()
	if err != nil {
		t.Fatal(err)
	}
	const pager = 2 // EWMH 1.5, _NET_ACTIVE_WINDOW
	if err := request.SendToManager(x, root, list[0].ID, active.Atom, pager, xproto.TimeCurrentTime); err != nil {
		t.Fatal(err)
	}
	if err := heldUp(t, "text", goOn, func() error { _, err := d.in.Keyboard.Type(t.Context(), textOf("x"), 0); return err }); err != nil {
		t.Fatal(err)
	}
	poll(t, "text", func() bool { return received[0]() == "x" && received[1]() == "before" })
}

// TestKeysWithoutWindowManager types after a click without a window manager.
func TestKeysWithoutWindowManager(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	w, err := b.conn.NewWindows()
	if err != nil {
		t.Fatal(err)
	}
	b.in.Follow(w)
	least := time.Hour // a busy machine may take long, but not each time
	for range 3 {
		if err := b.in.Pointer.Click(1, 1); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := b.in.Keyboard.Type(t.Context(), textOf("x"), 0); err != nil {
			t.Fatal(err)
		}
		least = min(least, time.Since(begin))
	}
	if least > time.Second {
		t.Errorf("typing waited %v for a window manager that is not there", least)
	}
}

// TestSwitchWindows presses alt+Tab in each possible way and types without a pause: the
// text goes to the window that the window manager then shows.
func TestSwitchWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.in.Follow(d.windows)
	_, received := d.twoTerminals(t)
	manager := d.managerPID(t)
	chord := func(keys string) x11.Chord {
		ch, err := x11.ParseChord(keys)
		if err != nil {
			t.Fatal(err)
		}
		return ch
	}
	all := func(steps ...func() error) func() error {
		return func() error {
			for _, step := range steps {
				if err := step(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	down := func(key string) func() error {
		return func() error { return d.in.Keyboard.KeyDown(t.Context(), chordOf(key)) }
	}
	up := func(key string) func() error {
		return func() error { return d.in.Keyboard.KeyUp(t.Context(), chordOf(key)) }
	}
	ways := []struct {
		name  string
		press func() error
	}{
		{"chord", func() error { return d.in.Keyboard.Press(t.Context(), chord("alt+Tab")) }},
		{"held modifier", func() error {
			release, err := d.in.Keyboard.HoldModifiers(t.Context(), []string{"alt"})
			if err != nil {
				return err
			}
			return all(func() error { return d.in.Keyboard.Press(t.Context(), chord("Tab")) }, release)()
		}},
		{"keys down and up", all(down("alt"), down("Tab"), up("Tab"), up("alt"))},
		{"chord down and up", all(down("alt+Tab"), up("alt+Tab"))},
	}
	want := [2]string{}
	front := 1
	for _, slow := range []bool{false, true} {
		for i, way := range ways {
			text := string(rune('a' + i))
			press := all(way.press, func() error { _, err := d.in.Keyboard.Type(t.Context(), textOf(text), 0); return err })
			var err error
			if slow {
				err = heldUp(t, way.name, stopped(t, manager), press)
			} else {
				err = press()
			}
			if err != nil {
				t.Fatalf("%s: %v", way.name, err)
			}
			front = 1 - front
			want[front] += text
			poll(t, "text after "+way.name, func() bool { return received[0]() == want[0] && received[1]() == want[1] })
		}
	}
}
