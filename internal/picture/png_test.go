package picture

import (
	"bytes"
	"context"
	"fmt"
	"hash/adler32"
	"image"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/disintegration/imaging"
)

// encode encodes and fails the test on an error.
func encode(tb testing.TB, e *Encoder, img *Image, o Options) []byte {
	tb.Helper()
	data, err := e.Encode(tb.Context(), img, o)
	if err != nil {
		tb.Fatalf("Encode(%dx%d, %+v) = %v", img.Width, img.Height, o, err)
	}
	return data
}

func decodePNG(tb testing.TB, data []byte) image.Image {
	tb.Helper()
	m, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		tb.Fatalf("decode: %v", err)
	}
	return m
}

// reference makes the unscaled picture pixel by pixel, without the package's
// strips and overlays.
func reference(img *Image, o Options) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, img.Width, img.Height))
	for y := range img.Height {
		for x := range img.Width {
			s := img.Pix[y*img.Stride+4*x:]
			i := m.PixOffset(x, y)
			m.Pix[i], m.Pix[i+1], m.Pix[i+2], m.Pix[i+3] = s[2], s[1], s[0], 255
		}
	}
	if c := o.Cursor; c != nil {
		for n := range c.Width * c.Height {
			p := image.Pt(c.X+n%c.Width, c.Y+n/c.Width)
			if p.In(m.Rect) {
				for k := range 3 {
					d := &m.Pix[m.PixOffset(p.X, p.Y)+k]
					under := float64(*d) * float64(255-c.Pix[4*n+3]) / 255
					*d = byte(min(float64(c.Pix[4*n+2-k])+float64(int(under+0.5)), 255))
				}
			}
		}
	}
	if o.Cross != nil {
		paintCross(m, *o.Cross)
	}
	if o.Region == (image.Rectangle{}) {
		return m
	}
	return imaging.Crop(m, o.Region)
}

// paintCross draws a crosshair at p, pixel by pixel.
func paintCross(m *image.NRGBA, p image.Point) {
	within := func(v, limit int) bool { return v <= limit && -v <= limit }
	for y := -20; y <= 20; y++ {
		for x := -20; x <= 20; x++ {
			at := p.Add(image.Pt(x, y))
			if !at.In(m.Rect) {
				continue
			}
			i := m.PixOffset(at.X, at.Y)
			switch {
			case within(x, 12) && within(y, 1), within(x, 1) && within(y, 12):
				copy(m.Pix[i:], []byte{255, 0, 0, 255})
			case within(x, 13) && within(y, 2), within(x, 2) && within(y, 13):
				copy(m.Pix[i:], []byte{255, 255, 255, 255})
			}
		}
	}
}

// compare fails the test when a colour of a pixel differs by more than slack.
func compare(tb testing.TB, got image.Image, want *image.NRGBA, slack int) {
	tb.Helper()
	if got.Bounds() != want.Bounds() {
		tb.Fatalf("picture is %v, want %v", got.Bounds(), want.Bounds())
	}
	pixels := imaging.Clone(got).Pix
	if bytes.Equal(pixels, want.Pix) {
		return
	}
	for i, v := range want.Pix {
		if d := int(pixels[i]) - int(v); d > slack || -d > slack {
			tb.Fatalf("channel %d of pixel %d,%d is %d, want %d", i%4, i%want.Stride/4, i/want.Stride, pixels[i], v)
		}
	}
}

var sizes = []image.Point{{1, 1}, {1, 70}, {70, 1}, {3, 5}, {17, 129}, {640, 65}, {333, 301}, {900, 200}}

func TestPNGSizes(t *testing.T) {
	t.Parallel()
	for n, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(n), 1))
			s := newScreen(size.X, size.Y, 7)
			s.noise(rnd, image.Rect(0, 0, size.X, size.Y))
			img := s.frame()
			compare(t, decodePNG(t, encode(t, new(Encoder), img, Options{})), reference(img, Options{}), 0)
		})
	}
}

// changes draws at random and returns each frame with options to encode it.
func changes(rnd *rand.Rand, s *screen, n int, check func(*Image, Options)) {
	side := func(limit int) (int, int) {
		a := rnd.IntN(limit)
		return a, a + 1 + rnd.IntN(limit-a)
	}
	views := []image.Rectangle{{}}
	for range 2 {
		x0, x1 := side(s.width)
		y0, y1 := side(s.height)
		views = append(views, image.Rect(x0, y0, x1, y1))
	}
	cursor := &Cursor{Width: 9, Height: 11, Pix: make([]byte, 4*9*11)}
	for i := range cursor.Pix {
		cursor.Pix[i] = byte(rnd.IntN(256))
	}
	for range n {
		if rnd.IntN(4) > 0 {
			x0, x1 := side(s.width)
			y0, y1 := side(s.height)
			s.noise(rnd, image.Rect(x0, y0, x1, min(y1, y0+20)))
		}
		o := Options{Region: views[rnd.IntN(len(views))]}
		if rnd.IntN(2) == 0 {
			o.Cross = &image.Point{X: rnd.IntN(s.width+40) - 20, Y: rnd.IntN(s.height+40) - 20}
		}
		if rnd.IntN(2) == 0 {
			c := *cursor
			c.X, c.Y = rnd.IntN(s.width+20)-15, rnd.IntN(s.height+20)-15
			o.Cursor = &c
		}
		check(s.frame(), o)
	}
}

func TestPNGChanges(t *testing.T) {
	t.Parallel()
	for n, size := range sizes[3:] {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(n), 2))
			var e Encoder
			changes(rnd, newScreen(size.X, size.Y, 1+rnd.IntN(40)), 30, func(img *Image, o Options) {
				compare(t, decodePNG(t, encode(t, &e, img, o)), reference(img, o), 0)
			})
		})
	}
}

// An image may arrive late, so a kept result must be found by its version.
func TestOlderImage(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 3))
	s := newScreen(200, 700, 16)
	var frames []*Image
	for y := 0; y < 700; y += 100 {
		s.noise(rnd, image.Rect(0, y, 200, y+100))
		frames = append(frames, s.frame())
	}
	var e Encoder
	for range 30 {
		img := frames[rnd.IntN(len(frames))]
		compare(t, decodePNG(t, encode(t, &e, img, Options{})), reference(img, Options{}), 0)
	}
}

// Strips of unchanged parts are kept, and other strips are not.
func TestStripsAreKept(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(4, 4))
	s := newScreen(512, 640, 32)
	s.noise(rnd, image.Rect(0, 0, 512, 640))
	var e Encoder
	first := s.frame()
	a := encode(t, &e, first, Options{})
	if b := encode(t, &e, first, Options{}); &a[0] != &b[0] {
		t.Error("the file of an unchanged image was made again")
	}
	made := func() map[*piece]bool {
		m := map[*piece]bool{}
		for _, k := range e.entries[0].strips {
			m[k.plain.piece] = true
			if k.drawn.piece != nil {
				m[k.drawn.piece] = true
			}
		}
		return m
	}
	news := func(before map[*piece]bool) int {
		n := 0
		for p := range made() {
			if !before[p] {
				n++
			}
		}
		return n
	}
	before := made()
	if len(before) != 10 {
		t.Fatalf("%d strips, want 10", len(before))
	}
	s.noise(rnd, image.Rect(3, 70, 9, 72))
	encode(t, &e, s.frame(), Options{})
	if n := news(before); n != 1 {
		t.Errorf("%d strips were made for a change in one", n)
	}
	before = made()
	encode(t, &e, s.frame(), Options{Cross: &image.Point{X: 100, Y: 256}})
	if n := news(before); n != 2 {
		t.Errorf("%d strips were made for a crosshair on the border of two", n)
	}
	before = made()
	encode(t, &e, s.frame(), Options{})
	if n := news(before); n != 0 {
		t.Errorf("%d strips were made after the crosshair had gone", n)
	}
}

func TestJoinAdler(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(6, 6))
	for range 300 {
		b := make([]byte, rnd.IntN(20000))
		for i := range b {
			b[i] = byte(rnd.Uint32() | 0xf0)
		}
		n := rnd.IntN(len(b) + 1)
		if got, want := joinAdler(adler32.Checksum(b[:n]), adler32.Checksum(b[n:]), len(b)-n), adler32.Checksum(b); got != want {
			t.Fatalf("joinAdler at %d of %d = %#x, want %#x", n, len(b), got, want)
		}
	}
}

func FuzzPNG(f *testing.F) {
	f.Add(uint16(1), uint16(1), uint8(1), uint64(0))
	f.Add(uint16(300), uint16(200), uint8(16), uint64(1))
	f.Add(uint16(1), uint16(900), uint8(64), uint64(2))
	f.Fuzz(func(t *testing.T, width, height uint16, bandHeight uint8, seed uint64) {
		w, h := int(width)%400+1, int(height)%400+1
		rnd := rand.New(rand.NewPCG(seed, 0))
		var e Encoder
		changes(rnd, newScreen(w, h, int(bandHeight)+1), 6, func(img *Image, o Options) {
			data, err := e.Encode(context.Background(), img, o)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, decodePNG(t, data), reference(img, o), 0)
		})
	})
}
