package webrtc

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/deskhand/deskhand/desktop"
)

// TestCursorImage checks that the message of a pointer's image has the message's size, and is
// smaller than 64 KiB for images of any size.
func TestCursorImage(t *testing.T) {
	t.Parallel()
	noise := rand.NewChaCha8([32]byte{})
	for _, tt := range []struct{ size, hot, want, wantHot image.Point }{
		{image.Pt(24, 32), image.Pt(3, 4), image.Pt(24, 32), image.Pt(3, 4)},
		{image.Pt(127, 127), image.Pt(126, 126), image.Pt(127, 127), image.Pt(126, 126)},
		{image.Pt(1000, 1000), image.Pt(500, 999), image.Pt(127, 127), image.Pt(63, 126)},
		{image.Pt(2, 4000), image.Pt(1, 0), image.Pt(1, 127), image.Pt(0, 0)},
	} {
		pix := make([]byte, 4*tt.size.X*tt.size.Y)
		_, _ = noise.Read(pix)
		c, err := newCursorImage(desktop.CursorImage{Width: tt.size.X, Height: tt.size.Y, Hot: desktop.Point{X: tt.hot.X, Y: tt.hot.Y}, Pix: pix})
		if err != nil {
			t.Fatal(err)
		}
		var header [5]uint16
		if err := binary.Read(bytes.NewReader(c.message[1:]), binary.BigEndian, &header); err != nil {
			t.Fatal(err)
		}
		want := [5]uint16{uint16(len(c.message)), uint16(tt.want.X), uint16(tt.want.Y), uint16(tt.wantHot.X), uint16(tt.wantHot.Y)} //nolint:gosec // they are small
		if header != want || len(c.message) >= 1<<16 {
			t.Errorf("%v: header %v of %d bytes, want %v", tt.size, header, len(c.message), want)
		}
		if img, err := png.Decode(bytes.NewReader(c.message[11:])); err != nil || img.Bounds().Size() != tt.want {
			t.Errorf("%v: %v, %v", tt.size, img.Bounds(), err)
		}
	}
}

// TestCursorWithoutArea checks that an image without a pixel, as of a glyph that a program's font has,
// is an error.
func TestCursorWithoutArea(t *testing.T) {
	t.Parallel()
	for _, size := range []image.Point{{200, 0}, {0, 200}, {0, 0}} {
		if _, err := newCursorImage(desktop.CursorImage{Width: size.X, Height: size.Y}); err == nil {
			t.Errorf("%v: no error", size)
		}
	}
}
