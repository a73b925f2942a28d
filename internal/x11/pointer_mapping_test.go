package x11_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/jezek/xgb/xproto"
)

// buttonMapping maps each of XTEST's ten buttons to itself, except the first ones.
func buttonMapping(first ...byte) []byte {
	m := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	copy(m, first)
	return m
}

// swapped swaps the first and the last button.
var swapped = []byte{10, 2, 3, 4, 5, 6, 7, 8, 9, 1}

// mapCore changes the mapping of the first pointer, as xmodmap does.
func (m *mouse) mapCore(to []byte) {
	m.t.Helper()
	r, err := xproto.SetPointerMapping(m.conn.X(), byte(len(to)), to).Reply()
	if err != nil || r.Status != xproto.MappingStatusSuccess {
		m.t.Fatal(r, err)
	}
}

// mapDevice changes the mapping of a device, as xinput does (XSetDeviceButtonMapping).
func (m *mouse) mapDevice(id byte, to []byte) {
	m.t.Helper()
	b := []byte{m.opcode, 29, 0, 0, id, byte(len(to)), 0, 0}
	b = append(b, to...)
	b = append(b, make([]byte, -len(b)&3)...)
	binary.LittleEndian.PutUint16(b[2:], uint16(len(b)/4))
	cookie := m.conn.X().NewCookie(true, true)
	m.conn.X().NewRequest(b, cookie)
	if r, err := cookie.Reply(); err != nil || r[8] != xproto.MappingStatusSuccess {
		m.t.Fatal(r, err)
	}
}

// pressed clicks a button and returns the button that arrives, or 0.
func (b *board) pressed(t *testing.T, button int) (arrived xproto.Button) {
	t.Helper()
	pt := b.in.Pointer
	if err := errors.Join(pt.Move(200, 200), pt.Click(button, 1), pt.Move(201, 200)); err != nil {
		t.Fatal(err)
	}
	moves := 0
	poll(t, "motion after the click", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, ev := range b.events {
			switch ev := ev.(type) {
			case xproto.ButtonPressEvent:
				arrived = ev.Detail
			case xproto.MotionNotifyEvent:
				moves++
			}
		}
		b.events = nil
		return moves == 2
	})
	return arrived
}

// TestRestoreMapping: a client maps buttons to others or to none, and ends.
func TestRestoreMapping(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*mouse){
		"first pointer, no left button":    func(m *mouse) { m.mapCore(buttonMapping(0)) },
		"first pointer, swapped":           func(m *mouse) { m.mapCore(buttonMapping(3, 2, 1)) },
		"pointer of XTEST, no left button": func(m *mouse) { m.mapDevice(xtestPointer, buttonMapping(0)) },
		"pointer of XTEST, swapped":        func(m *mouse) { m.mapDevice(xtestPointer, buttonMapping(3, 2, 1)) },
		"both": func(m *mouse) {
			m.mapCore(buttonMapping(2, 3, 1))
			m.mapDevice(xtestPointer, buttonMapping(2, 1, 3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			pt := b.in.Pointer
			if restored, err := pt.RestoreMapping(); restored || err != nil {
				t.Fatalf("RestoreMapping() = %v, %v before the change", restored, err)
			}
			m := newMouse(t, b)
			change(m)
			if err := m.conn.Close(); err != nil {
				t.Fatal(err)
			}
			if got := b.pressed(t, 1); got == 1 {
				t.Error("the changed mapping has no effect on clicks")
			}
			if restored, err := pt.RestoreMapping(); !restored || err != nil {
				t.Errorf("RestoreMapping() = %v, %v", restored, err)
			}
			if got := b.pressed(t, 1); got != 1 {
				t.Errorf("after RestoreMapping button %d arrives", got)
			}
			if restored, err := pt.RestoreMapping(); restored || err != nil {
				t.Errorf("RestoreMapping() = %v, %v again", restored, err)
			}
		})
	}
}

// TestRestoreMappingOfHeldButton: a client maps buttons, presses one of them, and ends. The X server
// refuses to map the button to itself until it is up.
func TestRestoreMappingOfHeldButton(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*mouse){
		"no left button": func(m *mouse) {
			m.mapCore(buttonMapping(0))
			m.press(xtestPointer, 1)
		},
		"swapped": func(m *mouse) {
			m.mapCore(swapped)
			m.press(xtestPointer, 10)
		},
		"pointer of XTEST, swapped": func(m *mouse) {
			m.mapDevice(xtestPointer, swapped)
			m.press(xtestPointer, 10)
		},
		"other device": func(m *mouse) {
			m.mapCore(buttonMapping(3, 2, 1))
			m.press(xvfbMouse, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			m := newMouse(t, b)
			hold(m)
			if err := m.conn.Close(); err != nil {
				t.Fatal(err)
			}
			if restored, err := b.in.Pointer.RestoreMapping(); !restored || err != nil {
				t.Errorf("RestoreMapping() = %v, %v", restored, err)
			}
			if got := b.pressed(t, 1); got != 1 {
				t.Errorf("after RestoreMapping button %d arrives", got)
			}
		})
	}
}

// TestRestoreMappingWithButtonDown restores the mapping once the button is up.
func TestRestoreMappingWithButtonDown(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	pt := b.in.Pointer
	newMouse(t, b).mapCore(buttonMapping(3, 2, 1))
	if err := pt.Button(1, true); err != nil {
		t.Fatal(err)
	}
	if restored, err := pt.RestoreMapping(); restored || err == nil {
		t.Errorf("RestoreMapping() = %v, %v, want an error while the button is down", restored, err)
	}
	if mask := b.mask(t); mask != xproto.KeyButMaskButton3 {
		t.Errorf("mask %#x, want that the button is still down", mask)
	}
	if err := pt.Button(1, false); err != nil {
		t.Fatal(err)
	}
	if restored, err := pt.RestoreMapping(); !restored || err != nil {
		t.Errorf("RestoreMapping() = %v, %v", restored, err)
	}
}
