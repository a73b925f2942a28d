package x11_test

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// floodFor is how long the tests flood.
const floodFor = 3 * time.Second

func bareWindow(t *testing.T, x *xgb.Conn, root xproto.Window) xproto.Window {
	t.Helper()
	win, err := xproto.NewWindowId(x)
	if err != nil {
		t.Fatal(err)
	}
	if err := xproto.CreateWindowChecked(x, 0, win, root, 0, 0, 9, 9, 0, xproto.WindowClassInputOnly, 0, 0, nil).Check(); err != nil {
		t.Fatal(err)
	}
	return win
}

// TestFloodOfFocus has a program name another window as active all the time.
func TestFloodOfFocus(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	w, err := s.Dial(t).NewWindows()
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	defer w.Watch(func(x11.WindowEvent) { calls.Add(1) })()
	x, root := s.Dial(t).Raw()
	first, second := bareWindow(t, x, root), bareWindow(t, x, root)
	name := "_NET_ACTIVE_WINDOW"
	active, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < floodFor; {
		for _, win := range []xproto.Window{first, second} {
			if err := xproto.ChangePropertyChecked(x, xproto.PropModeReplace, root, active.Atom, xproto.AtomWindow, 32, 1,
				binary.LittleEndian.AppendUint32(nil, uint32(win))).Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := calls.Load(); n < 1 || n > 600 {
		t.Errorf("%d events in %v, want some, and about 100 a second", n, floodFor)
	}
}

// TestFloodOfOwners has a program take the clipboard all the time.
func TestFloodOfOwners(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb, err := s.Dial(t).NewClipboard()
	if err != nil {
		t.Fatal(err)
	}
	defer cb.Close()
	var calls atomic.Int64
	cb.OnChange(func(x11.SelectionName) { calls.Add(1) })
	x, root := s.Dial(t).Raw()
	win := bareWindow(t, x, root)
	name := "CLIPBOARD"
	clipboard, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < floodFor; {
		if err := xproto.SetSelectionOwnerChecked(x, win, clipboard.Atom, xproto.TimeCurrentTime).Check(); err != nil {
			t.Fatal(err)
		}
	}
	if n := calls.Load(); n < 1 || n > 20 {
		t.Errorf("%d changes in %v, want some, and about four a second", n, floodFor)
	}
}
