package picture

import (
	"context"
	"image"
	"math/rand/v2"
	"testing"
)

// BenchmarkEncode measures what a caller waits for at 1440x900 with three
// terminals. "changed": all of the text is new; "line": one line of text is
// new; "unchanged": nothing is.
func BenchmarkEncode(b *testing.B) {
	s := newScreen(1440, 900, 32)
	s.terminals(1)
	a := s.frame()
	s.terminals(2)
	full := [2]*Image{a, s.frame()}
	frames := func(change string, n int) *Image {
		img := *full[n%2]
		img.Seq = uint64(n + 10)
		img.Bands = make([]uint64, len(a.Bands))
		for i := range img.Bands {
			if img.Bands[i] = 1; change == "changed" || change == "line" && i == 9 {
				img.Bands[i] = img.Seq
			}
		}
		return &img
	}
	half := Options{Scale: 0.5}
	cases := []struct {
		name string
		o    Options
	}{
		{"png", Options{}},
		{"png-half", half},
		{"png-0.7", Options{Scale: 0.7}},
		{"png-cross", Options{Cross: &image.Point{X: 700, Y: 400}}},
		{"png-region", Options{Region: image.Rect(300, 200, 700, 500)}},
		{"jpeg", Options{Format: JPEG}},
		{"jpeg-q70-half", Options{Format: JPEG, Quality: 70, Scale: 0.5}},
		{"webp", Options{Format: WebP}},
	}
	for _, c := range cases {
		for _, change := range []string{"changed", "line", "unchanged"} {
			b.Run(c.name+"/"+change, func(b *testing.B) {
				var e Encoder
				b.ReportAllocs()
				size := 0
				for n := 0; b.Loop(); n++ {
					data, err := e.Encode(context.Background(), frames(change, n), c.o)
					if err != nil {
						b.Fatal(err)
					}
					size = len(data)
				}
				b.ReportMetric(float64(size), "file-bytes")
			})
		}
	}
	b.Run("png-cross/moved", func(b *testing.B) {
		var e Encoder
		rnd := rand.New(rand.NewPCG(1, 1))
		for b.Loop() {
			p := image.Pt(rnd.IntN(1440), rnd.IntN(900))
			if _, err := e.Encode(context.Background(), a, Options{Cross: &p}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPhoto measures a screen that does not compress.
func BenchmarkPhoto(b *testing.B) {
	s := newScreen(1440, 900, 32)
	s.photo(1)
	img := s.frame()
	for _, f := range []Format{PNG, JPEG} {
		b.Run(string(f), func(b *testing.B) {
			var e Encoder
			size := 0
			for b.Loop() {
				e.Trim()
				data, err := e.Encode(context.Background(), img, Options{Format: f})
				if err != nil {
					b.Fatal(err)
				}
				size = len(data)
			}
			b.ReportMetric(float64(size), "file-bytes")
		})
	}
}
