package vp8screen_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/webrtc/vp8screen"
)

// A recording is a sequence of encoded frames, with the pictures that a decoder must show.
type recording struct {
	tb            testing.TB
	width, height int
	ivf           bytes.Buffer
	frames        int
	shown         []byte // I420, of the visible size
}

func newRecording(tb testing.TB, width, height int) *recording {
	r := &recording{tb: tb, width: width, height: height}
	var h [32]byte
	copy(h[:], "DKIF")
	binary.LittleEndian.PutUint16(h[6:], 32)
	copy(h[8:], "VP80")
	binary.LittleEndian.PutUint16(h[12:], uint16(width))
	binary.LittleEndian.PutUint16(h[14:], uint16(height))
	binary.LittleEndian.PutUint32(h[16:], 30)
	binary.LittleEndian.PutUint32(h[20:], 1)
	r.ivf.Write(h[:])
	return r
}

func (r *recording) add(data []byte, f *vp8screen.Frame) {
	var h [12]byte
	binary.LittleEndian.PutUint32(h[:], uint32(len(data)))
	binary.LittleEndian.PutUint64(h[4:], uint64(r.frames))
	r.ivf.Write(h[:])
	r.ivf.Write(data)
	r.frames++
	r.shown = appendI420(r.shown, f)
}

func appendI420(dst []byte, f *vp8screen.Frame) []byte {
	plane := func(p []byte, stride, w, h int) {
		for y := range h {
			dst = append(dst, p[y*stride:y*stride+w]...)
		}
	}
	plane(f.Y, f.YStride, f.Width, f.Height)
	plane(f.U, f.UVStride, (f.Width+1)/2, (f.Height+1)/2)
	plane(f.V, f.UVStride, (f.Width+1)/2, (f.Height+1)/2)
	return dst
}

// check decodes the file with both decoders of ffmpeg, its own and libvpx, which browsers use,
// and compares the pictures.
func (r *recording) check() {
	r.tb.Helper()
	file := filepath.Join(r.tb.TempDir(), "x.ivf")
	if err := os.WriteFile(file, r.ivf.Bytes(), 0o600); err != nil {
		r.tb.Fatal(err)
	}
	for _, decoder := range []string{"vp8", "libvpx"} {
		cmd := exec.CommandContext(r.tb.Context(), "ffmpeg", "-v", "warning", "-c:v", decoder, "-i", file,
			"-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		got, err := cmd.Output()
		if err != nil || stderr.Len() > 0 {
			r.tb.Fatalf("ffmpeg with %s: %v %s", decoder, err, stderr.String())
		}
		if len(got) != len(r.shown) {
			r.tb.Fatalf("%s decoded %d bytes, want %d", decoder, len(got), len(r.shown))
		}
		for i := range got {
			if got[i] != r.shown[i] {
				r.tb.Fatalf("first difference %s: %s decoded %d, the encoder has %d", r.place(i), decoder, got[i], r.shown[i])
			}
		}
	}
}

// place names the sample at i in the sequence.
func (r *recording) place(i int) string {
	w, h := r.width, r.height
	cw, ch := (w+1)/2, (h+1)/2
	size := w*h + 2*cw*ch
	frame, at := i/size, i%size
	if at < w*h {
		return fmt.Sprintf("in frame %d, Y at %d,%d", frame, at%w, at/w)
	}
	at -= w * h
	return fmt.Sprintf("in frame %d, chroma %d at %d,%d", frame, at/(cw*ch), at%(cw*ch)%cw, at%(cw*ch)/cw)
}

// psnr returns the quality of the luma.
func psnr(a, b *vp8screen.Frame) float64 {
	var sum float64
	for y := range a.Height {
		for x := range a.Width {
			d := float64(a.Y[y*a.YStride+x]) - float64(b.Y[y*b.YStride+x])
			sum += d * d
		}
	}
	return 10 * math.Log10(255*255*float64(a.Width*a.Height)/max(sum, 1))
}

// A canvas is a picture in BGRX to draw test content on.
type canvas struct {
	w, h int
	pix  []byte
}

func newCanvas(w, h int) *canvas {
	c := &canvas{w: w, h: h, pix: make([]byte, 4*w*h)}
	c.fill(image.Rect(0, 0, w, h), 0xf4f4f2)
	return c
}

func (c *canvas) fill(r image.Rectangle, colour uint32) {
	r = r.Intersect(image.Rect(0, 0, c.w, c.h))
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			binary.LittleEndian.PutUint32(c.pix[4*(y*c.w+x):], colour)
		}
	}
}

// text fills r with lines of glyphs of a random but repeating shape.
func (c *canvas) text(r image.Rectangle, rng *rand.Rand, ink, paper uint32) {
	c.fill(r, paper)
	for y := r.Min.Y + 3; y+12 < r.Max.Y; y += 17 {
		length := rng.IntN(max(r.Dx()-8, 1))
		for x := r.Min.X + 4; x+7 < r.Min.X+length; x += 8 {
			glyph := rng.IntN(60)
			if glyph > 50 {
				continue
			}
			shape := rand.New(rand.NewPCG(uint64(glyph), 7))
			for range 3 {
				if shape.IntN(2) == 0 {
					gx := x + shape.IntN(6)
					c.fill(image.Rect(gx, y+shape.IntN(4), gx+1, y+8+shape.IntN(4)).Intersect(r), ink)
				} else {
					gy := y + shape.IntN(11)
					c.fill(image.Rect(x+shape.IntN(2), gy, x+4+shape.IntN(3), gy+1).Intersect(r), ink)
				}
			}
		}
	}
}

// photo fills r with a smooth, noisy picture.
func (c *canvas) photo(r image.Rectangle, phase float64) {
	r = r.Intersect(image.Rect(0, 0, c.w, c.h))
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			fx, fy := float64(x), float64(y)
			red := 128 + 90*math.Sin(fx/37+phase)*math.Cos(fy/23)
			green := 120 + 80*math.Sin((fx+fy)/53-phase) + float64((x*7919+y*104729)%13)
			blue := 100 + 100*math.Cos(fy/41+fx/91+phase/2)
			binary.LittleEndian.PutUint32(c.pix[4*(y*c.w+x):], uint32(red)<<16|uint32(green)<<8|uint32(blue))
		}
	}
}

// scroll moves the content of r.
func (c *canvas) scroll(r image.Rectangle, dx, dy int) {
	old := bytes.Clone(c.pix)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if p := image.Pt(x-dx, y-dy); p.In(r) {
				copy(c.pix[4*(y*c.w+x):][:4], old[4*(p.Y*c.w+p.X):])
			}
		}
	}
}

func desktopPicture(w, h int, seed uint64) *canvas {
	c := newCanvas(w, h)
	rng := rand.New(rand.NewPCG(seed, 1))
	c.fill(image.Rect(0, 0, w, h), 0x30506f)
	c.text(image.Rect(w/20, h/10, w*2/3, h*9/10), rng, 0xd0d0d0, 0x101418)
	c.photo(image.Rect(w*7/10, h/8, w*19/20, h/2), 0)
	c.text(image.Rect(w*7/10, h/2, w, h), rng, 0x202020, 0xffffff)
	return c
}

func TestDesktop(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg")
	for _, size := range []image.Point{{2, 2}, {3, 5}, {16, 16}, {17, 33}, {200, 120}, {333, 217}, {1280, 720}} {
		for _, q := range []int{4, 24, 100} {
			t.Run(fmt.Sprintf("%dx%d q%d", size.X, size.Y, q), func(t *testing.T) {
				t.Parallel()
				testDesktop(t, size.X, size.Y, q)
			})
		}
	}
}

func testDesktop(t *testing.T, w, h, q int) {
	t.Helper()
	e, err := vp8screen.New(vp8screen.Config{Width: w, Height: h, MinQuantizer: q, MaxQuantizer: q})
	if err != nil {
		t.Fatal(err)
	}
	c := desktopPicture(w, h, 1)
	f, d := vp8screen.NewFrame(w, h), vp8screen.NewDirty(w, h)
	r := newRecording(t, w, h)
	rng := rand.New(rand.NewPCG(5, 5))
	for frame := range 12 {
		var o vp8screen.EncodeOptions
		o.Dirty = d
		d.Clear()
		switch {
		case frame == 0:
		case frame%4 == 1:
			area := image.Rect(rng.IntN(w), rng.IntN(h), rng.IntN(w)+40, rng.IntN(h)+30)
			c.text(area, rng, 0x00ff00, 0x202000)
		case frame%4 == 2:
			c.photo(image.Rect(w/3, h/3, w*2/3, h*2/3), float64(frame))
		case frame%4 == 3:
			area := image.Rect(w/20, h/10, w*2/3, h*9/10)
			dx, dy := rng.IntN(7)-3, rng.IntN(60)-30
			c.scroll(area, dx, dy)
			o.Motion = []vp8screen.Motion{{Rect: area, DX: dx, DY: dy}}
		}
		f.SetBGRX(c.pix, 4*w, image.Rect(0, 0, w, h), d)
		got, err := e.Encode(nil, f, o)
		if err != nil {
			t.Fatal(err)
		}
		if testing.Verbose() {
			t.Logf("frame %d: %d bytes, key %v, %d coded, %d moved, %.1f dB", frame, len(got.Data), got.Key, got.Coded, got.Moved, psnr(f, e.Reconstructed()))
		}
		r.add(got.Data, e.Reconstructed())
	}
	r.check()
}
