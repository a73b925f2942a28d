package x11

import (
	"bytes"
	"encoding/binary"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// restoreMatrix sets the matrix by which the X server multiplies the positions that XTEST sends to
// the identity again if a program has changed it.
func (pt *Pointer) restoreMatrix() (restored bool, err error) {
	var matrix, float xproto.Atom
	names := map[string]*xproto.Atom{"Coordinate Transformation Matrix": &matrix, "FLOAT": &float}
	if err := request.Atoms(pt.c.x, names); err != nil {
		return false, err
	}
	words := func(list ...uint32) (b []byte) {
		for _, w := range list {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	const one = 0x3f800000 // in single precision
	identity := words(one, 0, 0, 0, one, 0, 0, 0, one)
	get := words(uint32(matrix), uint32(float), 0, 9, xtestPointer)
	r, err := pt.ask(pt.xinput(xiGetDeviceProperty, get...)).Reply()
	if err != nil {
		return false, request.Wrap("read the pointer's matrix", err)
	}
	if now := r[messageHead:]; len(now) != len(identity) || bytes.Equal(now, identity) {
		return false, nil
	}
	set := append(words(uint32(matrix), uint32(float), xtestPointer|32<<8, 9), identity...)
	cookie := pt.c.x.NewCookie(true, false)
	pt.c.x.NewRequest(pt.xinput(xiChangeDeviceProperty, set...), cookie)
	err = cookie.Check()
	return err == nil, request.Wrap("restore the pointer's matrix", err)
}
