//go:build !race

package picture

import (
	"fmt"
	"image"
	"math/rand/v2"
	"testing"

	"github.com/disintegration/imaging"
)

func TestSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		w, h  int
		scale float64
		want  image.Point
	}{
		{1440, 900, 0, image.Pt(1440, 900)},
		{1440, 900, 1, image.Pt(1440, 900)},
		{1440, 900, 0.5, image.Pt(720, 450)},
		{1441, 899, 0.5, image.Pt(721, 450)},
		{1366, 768, 0.7, image.Pt(956, 538)},
		{3, 3, 0.1, image.Pt(1, 1)},
	} {
		w, h := Size(image.Rect(10, 20, 10+c.w, 20+c.h), c.scale)
		if got := image.Pt(w, h); got != c.want {
			t.Errorf("Size(%dx%d, %v) = %v, want %v", c.w, c.h, c.scale, got, c.want)
		}
	}
}

// scaledReference scales the whole picture with imaging. The package makes
// halves bit for bit the same; else it rounds between its two steps in another
// order than imaging, which may differ by one.
func scaledReference(img *Image, o Options) (*image.NRGBA, int) {
	plain := o
	plain.Scale = 0
	m := reference(img, plain)
	w, h := Size(m.Rect, o.Scale)
	filter, slack := imaging.Linear, 1
	if m.Rect.Dx()%w == 0 && m.Rect.Dy()%h == 0 {
		filter = imaging.Box
	}
	if m.Rect.Dx() == 2*w && m.Rect.Dy() == 2*h {
		slack = 0
	}
	return imaging.Resize(m, w, h, filter), slack
}

func TestScaleIsImaging(t *testing.T) {
	t.Parallel()
	for n, size := range append(sizes, image.Pt(640, 480), image.Pt(600, 900)) {
		for _, scale := range []float64{0.5, 0.1, 0.25, 0.333, 0.7, 0.9} {
			t.Run(fmt.Sprint(size, scale), func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(uint64(n), 21))
				s := newScreen(size.X, size.Y, 16)
				s.noise(rnd, image.Rect(0, 0, size.X, size.Y))
				img, o := s.frame(), Options{Scale: scale}
				want, slack := scaledReference(img, o)
				compare(t, decodePNG(t, encode(t, new(Encoder), img, o)), want, slack)
			})
		}
	}
}

// A scaled picture put together from strips of different ages equals the picture that
// would be made together.
func TestScaledChanges(t *testing.T) {
	t.Parallel()
	for n, size := range []image.Point{{333, 301}, {200, 1000}, {800, 450}} {
		for _, scale := range []float64{0.5, 0.3, 0.71} {
			t.Run(fmt.Sprint(size, scale), func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(uint64(n), 22))
				var e Encoder
				changes(rnd, newScreen(size.X, size.Y, 32), 8, func(img *Image, o Options) {
					o.Scale = scale
					got := decodePNG(t, encode(t, &e, img, o))
					fresh := decodePNG(t, encode(t, new(Encoder), img, o))
					compare(t, got, imaging.Clone(fresh), 0)
					want, slack := scaledReference(img, o)
					compare(t, got, want, slack)
				})
			})
		}
	}
}

// Rows of one colour keep it: weights add up.
func TestScaleKeepsFlatColours(t *testing.T) {
	t.Parallel()
	s := newScreen(301, 257, 16)
	for y := range s.height {
		for x := range s.width {
			s.set(x, y, 0x00fe80ff)
		}
	}
	for _, scale := range []float64{0.1, 0.37, 0.5, 0.66, 0.99} {
		m := imaging.Clone(decodePNG(t, encode(t, new(Encoder), s.frame(), Options{Scale: scale})))
		for i := 0; i < len(m.Pix); i += 4 {
			if [3]byte(m.Pix[i:]) != [3]byte{0xfe, 0x80, 0xff} {
				t.Fatalf("at scale %v a pixel is %v", scale, m.Pix[i:i+3])
			}
		}
	}
}
