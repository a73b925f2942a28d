package x11_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/deskhand/deskhand/internal/x11"
)

// mouse is a client that uses the device "Xvfb mouse".
type mouse struct {
	t      *testing.T
	conn   *x11.Conn
	opcode byte
	event  byte // the first one of the X Input Extension
}

// The numbers of devices.
const (
	xtestPointer = 4
	xvfbMouse    = 6 // Xvfb has no other pointer
)

func newMouse(t *testing.T, b *board) *mouse {
	t.Helper()
	conn := b.server.Dial(t)
	name := "XInputExtension"
	e, err := xproto.QueryExtension(conn.X(), uint16(len(name)), name).Reply()
	if err != nil || !e.Present {
		t.Fatal(e, err)
	}
	return &mouse{t, conn, e.MajorOpcode, e.FirstEvent}
}

// press presses a button of a device by the form of XTEST that names a device (XTestFakeDeviceButtonEvent).
func (m *mouse) press(device, button byte) {
	m.t.Helper()
	const deviceButtonPress = 3
	if err := xtest.FakeInputChecked(m.conn.X(), m.event+deviceButtonPress, button, 0, 0, 0, 0, device).Check(); err != nil {
		m.t.Fatal(err)
	}
}

// freeze grabs the device, so that its events wait for AllowDeviceEvents (XGrabDevice).
func (m *mouse) freeze(win xproto.Window) {
	m.t.Helper()
	b := []byte{m.opcode, 13, 5, 0}
	b = binary.LittleEndian.AppendUint32(b, uint32(win))
	b = append(b, make([]byte, 4+2)...)                      // the present time; no events
	b = append(b, xproto.GrabModeSync, xproto.GrabModeAsync) // this device, others
	b = append(b, 0, xvfbMouse, 0, 0)
	cookie := m.conn.X().NewCookie(true, true)
	m.conn.X().NewRequest(b, cookie)
	if r, err := cookie.Reply(); err != nil || r[8] != xproto.GrabStatusSuccess {
		m.t.Fatal(r, err)
	}
}

// TestButtonOfOtherDevice: a client presses buttons of another device than XTEST's, and ends. The
// X server then drops presses and releases of these buttons.
func TestButtonOfOtherDevice(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	pt := b.in.Pointer
	if err := pt.Move(200, 200); err != nil {
		t.Fatal(err)
	}
	m := newMouse(t, b)
	m.press(xvfbMouse, 1)
	m.press(xvfbMouse, 3)
	if err := m.conn.Close(); err != nil {
		t.Fatal(err)
	}
	b.take(t, 3) // the motion and the presses
	for what, press := range map[string]func() error{
		"Click":  func() error { return pt.Click(1, 1) },
		"Button": func() error { return pt.Button(3, true) },
		"Drag":   func() error { return pt.Drag(t.Context(), []x11.Point{{X: 201, Y: 200}}, 1) },
	} {
		if err := press(); err == nil || !strings.Contains(err.Error(), "input/release") {
			t.Errorf("%s: %v, want an error that names input/release", what, err)
		}
		if pt.ButtonDown() {
			t.Errorf("%s failed, but left a button down", what)
		}
	}
	if err := pt.Click(2, 1); err != nil {
		t.Errorf("Click with a button that nothing holds: %v", err)
	}
	if err := b.in.ReleaseAll(); err != nil {
		t.Fatal(err)
	}
	if mask := b.mask(t); mask != 0 {
		t.Errorf("after ReleaseAll: mask %#x", mask)
	}
	b.take(t, 5) // the motion of Drag, the click and two releases
	if err := pt.Click(1, 1); err != nil {
		t.Error(err)
	}
	b.take(t, 2)
}

// TestButtonOfEndedClient: a client presses a button of XTEST's pointer over a window, and ends. The
// window gets all clicks until the button is up.
func TestButtonOfEndedClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		button  byte
		mapping []byte
	}{
		"button 8":                       {8, buttonMapping()},
		"button 10 that is the left one": {10, swapped},
		"button 1 that is the tenth one": {1, swapped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			m := newMouse(t, b)
			m.mapCore(c.mapping)
			m.press(xtestPointer, c.button)
			if err := m.conn.Close(); err != nil {
				t.Fatal(err)
			}
			b.take(t, 1)
			if err := b.in.ReleaseAll(); err != nil {
				t.Fatal(err)
			}
			b.take(t, 1)
			if err := errors.Join(b.in.Pointer.Move(10, 10), b.in.Pointer.Click(3, 1)); err != nil {
				t.Error(err)
			}
			b.take(t, 0) // the click is not over the window
		})
	}
}

// TestButtonStaysDown: a client keeps its device's button from being released.
func TestButtonStaysDown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		button  byte
		mapping []byte
	}{
		"button 1 of device 6": {1, buttonMapping()},
		"button 3 of device 6": {3, buttonMapping(3, 2, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			m := newMouse(t, b)
			m.mapCore(c.mapping)
			m.press(xvfbMouse, c.button)
			m.freeze(b.win)
			if err := b.in.ReleaseAll(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("ReleaseAll: %v, want an error that names the button", err)
			}
			if mask := b.mask(t); mask != xproto.KeyButMaskButton1 {
				t.Fatalf("mask %#x, want that the button is down", mask)
			}
			if err := m.conn.Close(); err != nil {
				t.Fatal(err)
			}
			poll(t, "the end of the grab", func() bool { return b.in.ReleaseAll() == nil })
			if mask := b.mask(t); mask != 0 {
				t.Errorf("after ReleaseAll: mask %#x", mask)
			}
		})
	}
}

// TestClickBehindFrozenClick: a window manager that has grabbed a button has not yet let the
// release of a click take effect when the next click begins. Another button of another device does
// not matter.
func TestClickBehindFrozenClick(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	if err := xproto.GrabButtonChecked(b.viewer.X(), false, b.win, xproto.EventMaskButtonPress, xproto.GrabModeSync, xproto.GrabModeAsync,
		0, 0, 1, xproto.ModMaskAny).Check(); err != nil {
		t.Fatal(err)
	}
	if err := b.in.Pointer.Move(200, 200); err != nil {
		t.Fatal(err)
	}
	m := newMouse(t, b)
	for range 2 {
		if err := b.in.Pointer.Click(1, 1); err != nil {
			t.Error(err)
		}
		m.press(xvfbMouse, 3)
		if mask := b.mask(t); mask != xproto.KeyButMaskButton1 {
			t.Errorf("mask %#x, want that the release waits", mask)
		}
	}
}
