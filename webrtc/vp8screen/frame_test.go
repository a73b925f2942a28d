package vp8screen

import (
	"bytes"
	"fmt"
	"image"
	"math/rand/v2"
	"os/exec"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// randomBGRX returns a picture of random pixels, with a few bytes after each row.
func randomBGRX(rnd *rand.Rand, width, height int) (pix []byte, stride int) {
	stride = 4*width + 12
	pix = make([]byte, stride*height)
	for i := range pix {
		pix[i] = byte(rnd.Uint32())
	}
	return pix, stride
}

func sameFrame(a, b *Frame) bool {
	return bytes.Equal(a.Y, b.Y) && bytes.Equal(a.U, b.U) && bytes.Equal(a.V, b.V)
}

// plainFrame is the reference for SetBGRX: it computes each sample separately, from the nearest
// pixels of the picture.
func plainFrame(pix []byte, stride, width, height int) *Frame {
	f := NewFrame(width, height)
	at := func(x, y int) (r, g, b float64) {
		p := pix[min(y, height-1)*stride+4*min(x, width-1):]
		return float64(p[2]), float64(p[1]), float64(p[0])
	}
	for i := range f.Y {
		r, g, b := at(i%f.YStride, i/f.YStride)
		f.Y[i] = byte(16 + 219./255*(.299*r+.587*g+.114*b) + .5)
	}
	for i := range f.U {
		x, y := i%f.UVStride*2, i/f.UVStride*2
		var r, g, b float64
		// At the right the picture is continued, at the bottom the plane.
		y = min(y, (height-1)&^1)
		for _, p := range [4]image.Point{{x, y}, {x + 1, y}, {x, y + 1}, {x + 1, y + 1}} {
			r1, g1, b1 := at(p.X, p.Y)
			r, g, b = r+r1/4, g+g1/4, b+b1/4
		}
		luma := .299*r + .587*g + .114*b
		f.U[i] = byte(128 + 224./255*(b-luma)/1.772 + .5)
		f.V[i] = byte(128 + 224./255*(r-luma)/1.402 + .5)
	}
	return f
}

// wantNear fails when a sample differs by more than limit.
func wantNear(t *testing.T, got, want *Frame, limit int) {
	t.Helper()
	planes := []struct {
		name      string
		got, want []byte
		stride    int
	}{{"Y", got.Y, want.Y, got.YStride}, {"U", got.U, want.U, got.UVStride}, {"V", got.V, want.V, got.UVStride}}
	for _, p := range planes {
		for i := range p.want {
			if d := int(p.got[i]) - int(p.want[i]); d > limit || d < -limit {
				t.Errorf("%s at %d,%d is %d, want %d within %d", p.name, i%p.stride, i/p.stride, p.got[i], p.want[i], limit)
				break
			}
		}
	}
}

func TestSetBGRXWhole(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, size := range []image.Point{{1, 1}, {2, 2}, {15, 17}, {16, 16}, {33, 31}, {64, 48}, {161, 90}, {320, 241}} {
		pix, stride := randomBGRX(rnd, size.X, size.Y)
		f, dirty := NewFrame(size.X, size.Y), NewDirty(size.X, size.Y)
		if !f.SetBGRX(pix, stride, f.Bounds(), dirty) {
			t.Errorf("%v: nothing changed", size)
		}
		if n := len(dirty.Blocks); dirty.count() != n {
			t.Errorf("%v: %d of %d macroblocks are dirty", size, dirty.count(), n)
		}
		// The factors are rounded to 15 bits, which may turn a half.
		wantNear(t, f, plainFrame(pix, stride, size.X, size.Y), 1)

		dirty.Clear()
		if f.SetBGRX(pix, stride, f.Bounds(), dirty) || dirty.Any() {
			t.Errorf("%v: the same picture changed something", size)
		}
	}
}

func TestSetBGRXParts(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(2, 2))
	for n := range 300 {
		width, height := 1+rnd.IntN(120), 1+rnd.IntN(90)
		pix, stride := randomBGRX(rnd, width, height)
		f, dirty := NewFrame(width, height), NewDirty(width, height)
		f.SetBGRX(pix, stride, f.Bounds(), nil)
		for range 5 {
			before := NewFrame(width, height)
			before.CopyDirty(f, NewDirty(f.Width, f.Height).all())
			r := image.Rect(rnd.IntN(width), rnd.IntN(height), rnd.IntN(width+1), rnd.IntN(height+1))
			for y := r.Min.Y; y < r.Max.Y; y++ {
				for x := r.Min.X; x < r.Max.X; x++ {
					if rnd.IntN(40) == 0 {
						pix[y*stride+4*x+rnd.IntN(4)] ^= byte(1 << rnd.IntN(8))
					}
				}
			}
			dirty.Clear()
			changed := f.SetBGRX(pix, stride, r, dirty)
			want := NewFrame(width, height)
			want.SetBGRX(pix, stride, want.Bounds(), nil)
			if !sameFrame(f, want) {
				t.Fatalf("%d: %v of %dx%d: not the frame that the whole picture makes", n, r, width, height)
			}
			wantDirty(t, dirty, before, f)
			if changed != dirty.Any() {
				t.Fatalf("%d: SetBGRX = %v, but %d macroblocks are dirty", n, changed, dirty.count())
			}
			before.CopyDirty(f, dirty)
			if !sameFrame(before, f) {
				t.Fatalf("%d: CopyDirty left something behind", n)
			}
		}
	}
}

// wantDirty checks that exactly the macroblocks that differ are set.
func wantDirty(t *testing.T, dirty *Dirty, before, after *Frame) {
	t.Helper()
	want := NewDirty(after.Width, after.Height)
	mark := func(a, b []byte, stride, size int) {
		for i := range a {
			if a[i] != b[i] {
				want.Set(i%stride/size, i/stride/size)
			}
		}
	}
	mark(before.Y, after.Y, after.YStride, mbSize)
	mark(before.U, after.U, after.UVStride, mbSize/2)
	mark(before.V, after.V, after.UVStride, mbSize/2)
	if !bytes.Equal(dirty.Blocks, want.Blocks) {
		t.Fatalf("dirty is %v, want %v", dirty.Blocks, want.Blocks)
	}
}

// toRGB converts a sample as a browser does: by the inverse of BT.601, rounded to the nearest
// value.
func toRGB(y, u, v byte) (r, g, b int) {
	l, cb, cr := 255./219*(float64(y)-16), 255./224*(float64(u)-128), 255./224*(float64(v)-128)
	to8 := func(v float64) int { return int(max(0, min(255, v)) + .5) }
	return to8(l + 1.402*cr), to8(l - .114*1.772/.587*cb - .299*1.402/.587*cr), to8(l + 1.772*cb)
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	f := NewFrame(16, 16)
	pix := make([]byte, 4*16*16)
	set := func(r, g, b int) (y, u, v byte) {
		for i := 0; i < len(pix); i += 4 {
			pix[i], pix[i+1], pix[i+2] = byte(b), byte(g), byte(r)
		}
		f.SetBGRX(pix, 4*16, f.Bounds(), nil)
		return f.Y[0], f.U[0], f.V[0]
	}
	for grey := range 256 {
		y, u, v := set(grey, grey, grey)
		if r, g, b := toRGB(y, u, v); u != 128 || v != 128 || r != g || g != b || r < grey-1 || r > grey+1 {
			t.Errorf("grey %d is %d,%d,%d, which is seen as %d,%d,%d", grey, y, u, v, r, g, b)
		}
	}
	if y, _, _ := set(0, 0, 0); y != 16 {
		t.Errorf("black has luma %d", y)
	}
	if y, _, _ := set(255, 255, 255); y != 235 {
		t.Errorf("white has luma %d", y)
	}
	worst := 0
	for i := range 18 * 18 * 18 {
		want := [3]int{i % 18 * 15, i / 18 % 18 * 15, i / 324 * 15}
		y, u, v := set(want[0], want[1], want[2])
		r, g, b := toRGB(y, u, v)
		for c, got := range [3]int{r, g, b} {
			worst = max(worst, got-want[c], want[c]-got)
		}
	}
	// Half a step of luma and half a step of blue are 1.6 of 255.
	if worst > 2 {
		t.Errorf("a plain colour comes back wrong by %d", worst)
	}
}

// TestSwscale compares with the conversion of ffmpeg.
func TestSwscale(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg")
	rnd := rand.New(rand.NewPCG(4, 4))
	const width, height = 64, 48
	pix := make([]byte, 4*width*height)
	for i := range pix {
		pix[i] = byte(rnd.Uint32())
	}
	cmd := exec.Command("ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "bgr0", "-s", fmt.Sprintf("%dx%d", width, height), "-i", "-",
		"-sws_flags", "area+accurate_rnd+full_chroma_inp+full_chroma_int", "-pix_fmt", "yuv420p", "-f", "rawvideo", "-")
	cmd.Stdin = bytes.NewReader(pix)
	out, err := cmd.Output()
	if err != nil || len(out) != width*height*3/2 {
		t.Fatalf("ffmpeg: %v, %d bytes", err, len(out))
	}
	f := NewFrame(width, height)
	f.SetBGRX(pix, 4*width, f.Bounds(), nil)
	want := NewFrame(width, height)
	copy(want.Y, out)
	copy(want.U, out[width*height:])
	copy(want.V, out[width*height*5/4:])
	wantNear(t, f, want, 2)
}

func TestSetBGRXAllocatesNothing(t *testing.T) {
	pix, stride := randomBGRX(rand.New(rand.NewPCG(5, 5)), 333, 222)
	f, before, dirty := NewFrame(333, 222), NewFrame(333, 222), NewDirty(333, 222)
	if n := testing.AllocsPerRun(20, func() {
		pix[5]++
		dirty.Clear()
		f.SetBGRX(pix, stride, f.Bounds(), dirty)
		before.CopyDirty(f, dirty)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSetBGRXPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a picture that is too short was taken")
		}
	}()
	f := NewFrame(20, 20)
	f.SetBGRX(make([]byte, 4*20*20-1), 4*20, image.Rect(0, 0, 1, 1), nil)
}

func BenchmarkSetBGRX(b *testing.B) {
	pix, stride := randomBGRX(rand.New(rand.NewPCG(6, 6)), 1920, 1080)
	f, dirty := NewFrame(1920, 1080), NewDirty(1920, 1080)
	for _, r := range []image.Rectangle{f.Bounds(), image.Rect(360, 140, 1560, 940), image.Rect(100, 100, 356, 132)} {
		b.Run(fmt.Sprintf("%dx%d", r.Dx(), r.Dy()), func(b *testing.B) {
			b.SetBytes(int64(4 * r.Dx() * r.Dy()))
			for b.Loop() {
				f.SetBGRX(pix, stride, r, dirty)
			}
		})
	}
}
