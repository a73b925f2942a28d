//go:build !race

package picture

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"math/rand/v2"
	"testing"

	"github.com/HugoSmits86/nativewebp"
	"github.com/disintegration/imaging"
	"golang.org/x/image/webp"
)

// decodeWebP decodes with two independent decoders, which must agree.
func decodeWebP(tb testing.TB, data []byte) image.Image {
	tb.Helper()
	m, err := webp.Decode(bytes.NewReader(data))
	if err != nil {
		tb.Fatalf("decode with x/image: %v", err)
	}
	n, err := nativewebp.Decode(bytes.NewReader(data))
	if err != nil {
		tb.Fatalf("decode with nativewebp: %v", err)
	}
	compare(tb, n, imaging.Clone(m), 0)
	return m
}

func TestWebPSizes(t *testing.T) {
	t.Parallel()
	for n, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(n), 41))
			s := newScreen(size.X, size.Y, 7)
			for _, draw := range []func(){
				func() {},
				func() { s.noise(rnd, image.Rect(0, 0, size.X, size.Y)) },
				func() { s.photo(1) },
				func() { s.terminals(1) },
			} {
				draw()
				img := s.frame()
				compare(t, decodeWebP(t, encode(t, new(Encoder), img, Options{Format: WebP})), reference(img, Options{}), 0)
			}
		})
	}
}

func TestWebPChanges(t *testing.T) {
	t.Parallel()
	for n, size := range sizes[3:] {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(n), 42))
			s := newScreen(size.X, size.Y, 1+rnd.IntN(40))
			s.terminals(uint64(n))
			var e Encoder
			changes(rnd, s, 8, func(img *Image, o Options) {
				o.Format = WebP
				compare(t, decodeWebP(t, encode(t, &e, img, o)), reference(img, o), 0)
				o.Scale = 0.5
				got := decodeWebP(t, encode(t, &e, img, o))
				o.Format = PNG
				compare(t, got, imaging.Clone(decodePNG(t, encode(t, new(Encoder), img, o))), 0)
			})
		})
	}
}

// ffmpeg's decoder is a third one.
func TestWebPInFFmpeg(t *testing.T) {
	t.Parallel()
	s := newScreen(709, 901, 32)
	for _, paint := range []func(uint64){s.terminals, s.photo} {
		paint(1)
		img := s.frame()
		got := ffmpegPixels(t, encode(t, new(Encoder), img, Options{Format: WebP}), "rgba")
		want := image.NewNRGBA(image.Rect(0, 0, 709, 901))
		draw.Draw(want, want.Rect, reference(img, Options{}), image.Point{}, draw.Src)
		if !bytes.Equal(got, want.Pix) {
			t.Errorf("ffmpeg decodes %d bytes, which differ from the screen's %d", len(got), len(want.Pix))
		}
	}
}

func FuzzWebP(f *testing.F) {
	f.Add(uint16(1), uint16(1), uint64(0))
	f.Add(uint16(300), uint16(200), uint64(1))
	f.Add(uint16(0), uint16(399), uint64(2))
	f.Fuzz(func(t *testing.T, width, height uint16, seed uint64) {
		w, h := int(width)%400+1, int(height)%400+1
		rnd := rand.New(rand.NewPCG(seed, 0))
		s := newScreen(w, h, 16)
		if seed%2 == 0 {
			s.terminals(seed)
		}
		var e Encoder
		changes(rnd, s, 3, func(img *Image, o Options) {
			o.Format = WebP
			data, err := e.Encode(context.Background(), img, o)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, decodeWebP(t, data), reference(img, o), 0)
		})
	})
}
