package vp8screen

import (
	"bytes"
	"image"
	"math/rand/v2"
	"testing"

	"golang.org/x/image/vp8"
)

// FuzzEncode draws a picture from the input and encodes it as a key frame, after other frames. It
// compares with a decoder in this process, which decodes only key frames, but takes microseconds
// where ffmpeg takes much of a second. FuzzDecode tests other frames.
func FuzzEncode(f *testing.F) {
	f.Add(uint8(20), uint8(17), uint8(24), []byte("a picture, and what changes in it"))
	f.Add(uint8(0), uint8(0), uint8(0), []byte{255})
	f.Add(uint8(255), uint8(200), uint8(127), []byte{0, 255, 2, 253, 4, 251, 6, 249, 8, 247})
	f.Fuzz(func(t *testing.T, width, height, q uint8, data []byte) {
		w, h, index := 2+int(width), 2+int(height), 1+int(q)%127
		e, err := New(Config{Width: w, Height: h, MinQuantizer: index, MaxQuantizer: index})
		if err != nil {
			t.Fatal(err)
		}
		c, frame, dirty := newCanvas(w, h), NewFrame(w, h), NewDirty(w, h)
		for n := 0; ; n++ {
			dirty.Clear()
			if len(data) >= 8 {
				drawBytes(c, data[:8])
				data = data[8:]
			} else {
				drawNoise(c, data)
				data = nil
			}
			frame.SetBGRX(c.pix, c.stride, c.bounds(), dirty)
			o := EncodeOptions{Dirty: dirty, Key: data == nil}
			if len(data) > 1 {
				o.Motion = []Motion{{Rect: c.bounds(), DX: int(int8(data[0])), DY: int(int8(data[1]))}}
			}
			got, err := e.Encode(nil, frame, o)
			if err != nil {
				t.Fatal(err)
			}
			if got.Key {
				wantKey(t, got.Data, e.Reconstructed())
			}
			if data == nil {
				return
			}
		}
	})
}

// drawBytes moves or fills a rectangle.
func drawBytes(c *canvas, b []byte) {
	r := inset(c.bounds(), float64(b[0])/256, float64(b[1])/256, float64(b[2])/255, float64(b[3])/255)
	if b[4]&1 == 0 {
		c.fill(r, rgb(b[5])<<16|rgb(b[6])<<8|rgb(b[7]))
	} else {
		c.move(r, int(int8(b[5]))/8, int(int8(b[6]))/8)
	}
}

// drawNoise fills the picture with the bytes repeatedly, and replaces a part of them by the
// lowest and highest values.
func drawNoise(c *canvas, b []byte) {
	if len(b) == 0 {
		return
	}
	rnd := rand.New(rand.NewPCG(uint64(b[0]), uint64(len(b))))
	for i := range c.pix {
		if v := b[i%len(b)]; v&1 == 0 {
			c.pix[i] = v
		} else if rnd.IntN(4) == 0 {
			c.pix[i] = -(v >> 1 & 1)
		}
	}
}

// wantKey decodes a key frame with golang.org/x/image and compares the picture.
func wantKey(t *testing.T, data []byte, want *Frame) {
	t.Helper()
	d := vp8.NewDecoder()
	d.Init(bytes.NewReader(data), len(data))
	h, err := d.DecodeFrameHeader()
	if err != nil {
		t.Fatal(err)
	}
	if !h.KeyFrame || h.Width != want.Width || h.Height != want.Height {
		t.Fatalf("header %+v, want %dx%d", h, want.Width, want.Height)
	}
	m, err := d.DecodeFrame()
	if err != nil {
		t.Fatal(err)
	}
	for y := range want.Height {
		for x := range want.Width {
			if got, want := m.Y[m.YOffset(x, y)], want.Y[y*want.YStride+x]; got != want {
				t.Fatalf("Y at %d,%d is %d, want %d", x, y, got, want)
			}
			o, at := m.COffset(x, y), y/2*want.UVStride+x/2
			if m.Cb[o] != want.U[at] || m.Cr[o] != want.V[at] {
				t.Fatalf("chroma at %d,%d is %d, %d, want %d, %d", x, y, m.Cb[o], m.Cr[o], want.U[at], want.V[at])
			}
		}
	}
}

// TestPartitions compares key frames of several workers, which write several
// token partitions.
func TestPartitions(t *testing.T) {
	t.Parallel()
	for threads := 1; threads <= 9; threads++ {
		f, _ := still(t, 500, 350)
		e, err := New(Config{Width: 500, Height: 350, Threads: threads, MinQuantizer: 6, MaxQuantizer: 6})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			got, err := e.Encode(nil, f, EncodeOptions{Key: true})
			if err != nil {
				t.Fatal(err)
			}
			wantKey(t, got.Data, e.Reconstructed())
		}
	}
}

// TestHugeFrames encodes the largest sizes of VP8.
func TestHugeFrames(t *testing.T) {
	t.Parallel()
	for _, size := range []image.Point{{MaxSize, 2}, {2, MaxSize}, {MaxSize, 33}} {
		f, c := NewFrame(size.X, size.Y), newCanvas(size.X, size.Y)
		c.fill(image.Rect(1, 1, size.X-1, size.Y-1), 0x3080f0)
		c.text(mono(), 0, 0, sentence(rand.New(rand.NewPCG(1, 1)), size.X/8), 0xffffff, c.bounds())
		f.SetBGRX(c.pix, c.stride, c.bounds(), nil)
		e, err := New(Config{Width: size.X, Height: size.Y})
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Encode(nil, f, EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantKey(t, got.Data, e.Reconstructed())
	}
}
