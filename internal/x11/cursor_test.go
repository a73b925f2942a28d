package x11_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/render"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

func TestCursor(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 240)
	c := s.Dial(t)
	x, root := c.Raw()
	pixmap, _ := xproto.NewPixmapId(x)
	xproto.CreatePixmap(x, 1, pixmap, xproto.Drawable(root), 16, 16)
	gc, _ := xproto.NewGcontextId(x)
	xproto.CreateGC(x, gc, xproto.Drawable(pixmap), xproto.GcForeground, []uint32{0})
	all := []xproto.Rectangle{{Width: 16, Height: 16}}
	xproto.PolyFillRectangle(x, xproto.Drawable(pixmap), gc, all)
	xproto.ChangeGC(x, gc, xproto.GcForeground, []uint32{1})
	xproto.PolyFillRectangle(x, xproto.Drawable(pixmap), gc, []xproto.Rectangle{{X: 2, Y: 3, Width: 4, Height: 5}})
	cursor, _ := xproto.NewCursorId(x)
	xproto.CreateCursor(x, cursor, pixmap, pixmap, 0x1212, 0x3434, 0x5656, 0, 0, 0, 3, 4)
	before, err := c.Cursor()
	if err != nil {
		t.Fatal(err)
	}
	xproto.ChangeWindowAttributes(x, root, xproto.CwCursor, []uint32{uint32(cursor)})
	xproto.WarpPointer(x, 0, root, 0, 0, 0, 0, 123, 45)
	got, err := c.Cursor()
	if err != nil {
		t.Fatal(err)
	}
	if got.X != 123 || got.Y != 45 || got.XHot != 3 || got.YHot != 4 || got.Serial == before.Serial {
		t.Errorf("Cursor() = %+v after serial %d", *got, before.Serial)
	}
	if got.Width != 16 || got.Height != 16 || len(got.Pix) != 16*16*4 {
		t.Fatalf("picture is %dx%d, %d bytes", got.Width, got.Height, len(got.Pix))
	}
	for y := range 16 {
		for x := range 16 {
			want := []byte{0, 0, 0, 0}
			if x >= 2 && x < 6 && y >= 3 && y < 8 {
				want = []byte{0x56, 0x34, 0x12, 0xff}
			}
			if p := got.Pix[4*(16*y+x):][:4]; !bytes.Equal(p, want) {
				t.Fatalf("pixel %d,%d is %x, want %x", x, y, p, want)
			}
		}
	}
}

// TestHugeCursor checks that the pointer's picture of a hostile client, which may
// have gigabytes, is not read, and that the connection still works.
func TestHugeCursor(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 240)
	c := s.Dial(t)
	x, root := c.Raw()
	setCursor(t, x, root, 1200)
	if got, err := c.Cursor(); !errors.Is(err, x11.ErrNoCursor) {
		t.Errorf("Cursor() = %v, %v, want %v", got != nil, err, x11.ErrNoCursor)
	}
	setCursor(t, x, root, 64)
	if got, err := c.Cursor(); err != nil || got.Width != 64 {
		t.Errorf("the next Cursor() = %v, %v", got, err)
	}
}

// setCursor sets a pointer of that width and height for the whole screen.
func setCursor(t *testing.T, x *xgb.Conn, root xproto.Window, side uint16) {
	t.Helper()
	if err := render.Init(x); err != nil {
		t.Fatal(err)
	}
	formats, err := render.QueryPictFormats(x).Reply()
	if err != nil {
		t.Fatal(err)
	}
	var format render.Pictformat
	for _, f := range formats.Formats {
		if f.Depth == 32 && f.Direct.AlphaMask == 0xff {
			format = f.Id
		}
	}
	pixmap, _ := xproto.NewPixmapId(x)
	picture, _ := render.NewPictureId(x)
	id, _ := xproto.NewCursorId(x)
	for _, err := range []error{
		xproto.CreatePixmapChecked(x, 32, pixmap, xproto.Drawable(root), side, side).Check(),
		render.CreatePictureChecked(x, picture, xproto.Drawable(pixmap), format, 0, nil).Check(),
		render.CreateCursorChecked(x, id, picture, 0, 0).Check(),
		xproto.ChangeWindowAttributesChecked(x, root, xproto.CwCursor, []uint32{uint32(id)}).Check(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
