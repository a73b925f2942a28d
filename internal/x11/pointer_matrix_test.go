package x11_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11"
)

// setMatrix changes the matrix that a device's positions are multiplied with, as xinput does
// (XChangeDeviceProperty).
func (m *mouse) setMatrix(device byte, matrix ...float32) {
	m.t.Helper()
	b := []byte{m.opcode, 37, 0, 0}
	for _, name := range []string{"Coordinate Transformation Matrix", "FLOAT"} {
		a, err := xproto.InternAtom(m.conn.X(), false, uint16(len(name)), name).Reply()
		if err != nil {
			m.t.Fatal(err)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(a.Atom))
	}
	b = append(b, device, 32, xproto.PropModeReplace, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(matrix)))
	for _, v := range matrix {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	binary.LittleEndian.PutUint16(b[2:], uint16(len(b)/4))
	cookie := m.conn.X().NewCookie(true, false)
	m.conn.X().NewRequest(b, cookie)
	if err := cookie.Check(); err != nil {
		m.t.Fatal(err)
	}
}

// TestRestoreMatrix: a client moves all positions of XTEST's pointer to one point, and ends.
func TestRestoreMatrix(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	pt := b.in.Pointer
	m := newMouse(t, b)
	m.setMatrix(xtestPointer, 0, 0, .5, 0, 0, .5, 0, 0, 1)
	if err := m.conn.Close(); err != nil {
		t.Fatal(err)
	}
	moved := func() (at x11.Point) {
		t.Helper()
		if err := pt.Move(100, 60); err != nil {
			t.Fatal(err)
		}
		var err error
		if at.X, at.Y, _, _, err = pt.Position(); err != nil {
			t.Fatal(err)
		}
		return at
	}
	want := x11.Point{X: 100, Y: 60}
	if moved() == want {
		t.Error("the changed matrix has no effect on positions")
	}
	if restored, err := pt.RestoreMapping(); !restored || err != nil {
		t.Errorf("RestoreMapping() = %v, %v", restored, err)
	}
	if at := moved(); at != want {
		t.Errorf("after RestoreMapping the pointer is at %v, want %v", at, want)
	}
	if restored, err := pt.RestoreMapping(); restored || err != nil {
		t.Errorf("RestoreMapping() = %v, %v again", restored, err)
	}
}
