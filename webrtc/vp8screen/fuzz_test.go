//go:build !race

package vp8screen

import (
	"math/rand/v2"
	"testing"
)

// FuzzDecode encodes random clips at random sizes with random options, and compares the pictures
// of ffmpeg and of the encoder.
func FuzzDecode(f *testing.F) {
	requireFFmpeg(f)
	for seed := range uint64(4) {
		f.Add(seed, seed*7)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) { testRandom(t, rand.New(rand.NewPCG(a, b))) })
}

// FuzzFrame changes a picture byte by byte, copies it to a frame by rectangles and searches
// motion in it.
func FuzzFrame(f *testing.F) {
	f.Add(uint8(20), uint8(17), []byte("a picture, and what changes in it"))
	f.Add(uint8(1), uint8(1), []byte{255})
	f.Add(uint8(255), uint8(200), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, width, height uint8, data []byte) {
		w, h := max(1, int(width)), max(1, int(height))
		c := newCanvas(w, h)
		p := pair{prev: NewFrame(w, h), cur: NewFrame(w, h), dirty: NewDirty(w, h)}
		var s ScrollFinder
		for len(data) > 6 {
			r := inset(c.bounds(), float64(data[0])/256, float64(data[1])/256, float64(data[2])/255, float64(data[3])/255)
			c.fill(r, rgb(data[4])*0x10305)
			c.move(c.bounds(), int(int8(data[5]))/8, int(int8(data[6]))/8)
			p.dirty.Clear()
			p.cur.SetBGRX(c.pix, c.stride, c.bounds(), p.dirty)
			wantDirty(t, p.dirty, p.prev, p.cur)
			for _, m := range s.Find(p.prev, p.cur, p.dirty) {
				if m.Rect.Empty() || !m.Rect.In(p.cur.Bounds()) || m.DX == 0 && m.DY == 0 {
					t.Fatalf("%v in a frame of %dx%d", m, w, h)
				}
			}
			p.prev.CopyDirty(p.cur, p.dirty)
			if !sameFrame(p.prev, c.frame()) {
				t.Fatal("not the frame that the whole picture makes")
			}
			data = data[7:]
		}
	})
}
