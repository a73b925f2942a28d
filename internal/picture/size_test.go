//go:build !race

package picture

// The race detector makes these ten times slower. Each does its work in one goroutine.

import (
	"image"
	"math/rand/v2"
	"testing"
)

// Memory stays within bounds for all requests, and Trim frees it.
func TestBounds(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 33))
	s := newScreen(1100, 1200, 32)
	s.noise(rnd, image.Rect(0, 0, 1100, 1200))
	img := s.frame()
	var e Encoder
	for n := range 12 {
		o := Options{Region: image.Rect(n, 0, 1100, 1200-n)}
		if n%3 > 0 {
			o.Region.Max.Y = 300
		}
		encode(t, &e, img, o)
		total := 0
		for _, en := range e.entries {
			total += en.measure()
		}
		if len(e.entries) > maxEntries || total > maxBytes {
			t.Fatalf("%d views and %d bytes are kept", len(e.entries), total)
		}
	}
	if len(e.entries) == 0 || len(e.idle) == 0 {
		t.Fatal("nothing is kept")
	}
	// A picture too large to be kept twice is kept as a file; then not at all.
	for _, c := range []struct {
		size image.Point
		kept bool
	}{{image.Pt(2000, 1500), true}, {image.Pt(2400, 1800), false}} {
		s := newScreen(c.size.X, c.size.Y, 32)
		s.noise(rnd, image.Rectangle{Max: c.size})
		img := s.frame()
		data := encode(t, &e, img, Options{})
		if n := e.entries[0].measure(); n > maxBytes || (n > 0) != c.kept {
			t.Errorf("%d bytes of a picture of %v are kept", n, c.size)
		}
		if len(data) < maxBytes/2 {
			t.Errorf("a picture of %v takes %d bytes only", c.size, len(data))
		}
	}
	encode(t, &e, newScreen(maxWebPSide, 65, 32).frame(), Options{Format: WebP})
	for _, w := range e.idle {
		if w.size() > keepable/cap(e.slots) {
			t.Errorf("a waiting worker holds %d bytes", w.size())
		}
	}
	e.Trim()
	if len(e.entries) != 0 || len(e.idle) != 0 {
		t.Error("Trim left something")
	}
	compare(t, decodePNG(t, encode(t, &e, img, Options{})), reference(img, Options{}), 0)
}

func TestJPEGOfText(t *testing.T) {
	t.Parallel()
	s := newScreen(1440, 900, 32)
	s.terminals(1)
	img := s.frame()
	data := encode(t, new(Encoder), img, Options{Format: JPEG})
	equalPlanes(t, decodeJPEG(t, data), decodeJPEG(t, serialJPEG(t, reference(img, Options{}), DefaultQuality)))
}
