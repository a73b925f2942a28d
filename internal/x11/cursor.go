package x11

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Cursor is the pointer's picture and place. It is not part of a Frame.
type Cursor struct {
	X, Y          int // of the hot spot, on the screen
	XHot, YHot    int // of the hot spot, in the picture
	Width, Height int
	Serial        uint32 // differs for different pictures
	Pix           []byte // premultiplied B, G, R, A, in rows of Width*4 bytes
}

// ErrNoCursor is returned if the pointer's picture cannot be read: the SECURITY extension
// of the X server hides it after the end of the client that set it, and a picture of more
// than 4 MiB is not read.
var ErrNoCursor = errors.New("the pointer's picture cannot be read")

// Cursor reads the pointer's picture and place (XFIXES GetCursorImage).
func (c *Conn) Cursor() (*Cursor, error) {
	r, err := xfixes.GetCursorImage(c.x).Reply()
	_, denied := errors.AsType[xproto.AccessError](err)
	if _, long := errors.AsType[xproto.AllocError](err); denied || long {
		return nil, fmt.Errorf("get cursor image: %w", ErrNoCursor)
	}
	if err != nil {
		return nil, request.Wrap("get cursor image", err)
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

// WatchCursor calls f whenever the pointer's picture changes (XFIXES CursorNotify), until
// remove. f runs on the connection's event goroutine: it must return soon and must not
// wait for the server.
func (c *Conn) WatchCursor(f func()) (remove func(), err error) {
	remove = c.handle(func(ev xgb.Event) {
		if raw, ok := ev.(RawEvent); ok && raw[0]&127 == c.ext.xfixes+xfixes.CursorNotify {
			f()
		}
	})
	if err := xfixes.SelectCursorInputChecked(c.x, c.root, xfixes.CursorNotifyMaskDisplayCursor).Check(); err != nil {
		remove()
		return nil, request.Wrap("watch cursor", err)
	}
	return remove, nil
}
