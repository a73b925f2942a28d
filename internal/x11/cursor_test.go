package x11_test

import (
	"bytes"
	"testing"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
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
