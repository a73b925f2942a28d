package x11

import (
	"encoding/binary"

	"github.com/jezek/xgb/xfixes"
)

// Cursor is the pointer's picture and place. It is not part of a Frame.
type Cursor struct {
	// X and Y are where the hot spot is on the screen.
	X, Y int
	// XHot and YHot are where the hot spot is in the picture.
	XHot, YHot    int
	Width, Height int
	// Serial differs for different pictures.
	Serial uint32
	// Pix is premultiplied B, G, R, A, in rows of Width*4 bytes.
	Pix []byte
}

// Cursor reads the pointer's picture and place (XFIXES GetCursorImage).
func (c *Conn) Cursor() (*Cursor, error) {
	r, err := xfixes.GetCursorImage(c.x).Reply()
	if err != nil {
		return nil, wrap("get cursor image", err)
	}
	cur := &Cursor{
		X: int(r.X), Y: int(r.Y), XHot: int(r.Xhot), YHot: int(r.Yhot),
		Width: int(r.Width), Height: int(r.Height), Serial: r.CursorSerial,
		Pix: make([]byte, 0, 4*len(r.CursorImage)),
	}
	for _, argb := range r.CursorImage {
		cur.Pix = binary.LittleEndian.AppendUint32(cur.Pix, argb)
	}
	return cur, nil
}
