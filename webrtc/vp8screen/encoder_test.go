package vp8screen

import (
	"errors"
	"image"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// still returns a desktop with text, as a frame and as a canvas.
func still(tb testing.TB, width, height int) (*Frame, *canvas) {
	tb.Helper()
	for c := range corpus[0].play(tb, width, height, 1) {
		return c.frame(), c
	}
	return nil, nil
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want error
	}{
		{Config{Width: 2, Height: 2}, nil},
		{Config{Width: MaxSize, Height: 2}, nil},
		{Config{Width: 1, Height: 100}, ErrSize},
		{Config{Width: 100, Height: MaxSize + 1}, ErrSize},
		{Config{Width: -5, Height: 100}, ErrSize},
		{Config{Width: 16, Height: 16, MinQuantizer: 30, MaxQuantizer: 20}, ErrConfig},
		{Config{Width: 16, Height: 16, MaxQuantizer: 128}, ErrConfig},
		{Config{Width: 16, Height: 16, MinQuantizer: -1}, ErrConfig},
		{Config{Width: 16, Height: 16, Bitrate: -1}, ErrConfig},
		{Config{Width: 16, Height: 16, FrameRate: -1}, ErrConfig},
		{Config{Width: 16, Height: 16, MinQuantizer: 110}, nil},
	} {
		if _, err := New(c.cfg); !errors.Is(err, c.want) {
			t.Errorf("New(%+v): %v, want %v", c.cfg, err, c.want)
		}
	}
}

func TestWrongSizes(t *testing.T) {
	t.Parallel()
	e, err := New(Config{Width: 100, Height: 50})
	if err != nil {
		t.Fatal(err)
	}
	dst := []byte("before")
	for _, o := range []struct {
		f *Frame
		d *Dirty
	}{
		{NewFrame(100, 51), nil},
		{NewFrame(50, 100), nil},
		{NewFrame(100, 50), NewDirty(100, 80)},
		{&Frame{Width: 100, Height: 50, YStride: 112, UVStride: 56}, nil},
	} {
		got, err := e.Encode(dst, o.f, EncodeOptions{Dirty: o.d})
		if !errors.Is(err, ErrSize) || string(got.Data) != "before" {
			t.Errorf("Encode of %dx%d: %v, %d bytes", o.f.Width, o.f.Height, err, len(got.Data))
		}
	}
}

func TestFirstFrameIsKey(t *testing.T) {
	t.Parallel()
	f, _ := still(t, 320, 200)
	e, err := New(Config{Width: 320, Height: 200})
	if err != nil {
		t.Fatal(err)
	}
	idle := NewDirty(320, 200)
	for n, want := range []bool{true, false, false} {
		got, err := e.Encode([]byte("x"), f, EncodeOptions{Dirty: idle})
		if err != nil || got.Key != want || got.Data[0] != 'x' {
			t.Fatalf("frame %d: key %v, %v", n, got.Key, err)
		}
		if !want && (len(got.Data) > 100 || got.Coded != 0) {
			t.Errorf("an unchanged frame takes %d bytes, %d coded", len(got.Data), got.Coded)
		}
	}
}

// TestNoAllocations covers every kind of frame once the buffers have grown.
func TestNoAllocations(t *testing.T) {
	for _, threads := range []int{1, 3} {
		testNoAllocations(t, threads)
	}
}

func testNoAllocations(t *testing.T, threads int) {
	t.Helper()
	f, c := still(t, 640, 480)
	e, err := New(Config{Width: 640, Height: 480, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	dirty := NewDirty(640, 480)
	now := time.Unix(1, 0)
	var data []byte
	n := 0
	step := func() {
		dirty.Clear()
		area := image.Rect(100, 100, 500, 400)
		o := EncodeOptions{Dirty: dirty, Now: now}
		switch n % 8 {
		case 0:
			o.Key = true
		case 1, 2:
			for row := area.Min.Y / mbSize; row < area.Max.Y/mbSize; row++ {
				for col := area.Min.X / mbSize; col <= area.Max.X/mbSize; col++ {
					dirty.Set(col, row)
				}
			}
			o.Motion = motions[:]
		case 3:
			c.fill(image.Rect(n%100, 50, n%100+300, 200), rgb(n*123457))
			f.SetBGRX(c.pix, c.stride, f.Bounds(), dirty)
		case 4:
			o.Dirty = nil
		case 6:
			now = now.Add(time.Second)
		}
		n++
		o.Now = now
		now = now.Add(time.Second / 30)
		got, err := e.Encode(data[:0], f, o)
		if err != nil {
			t.Fatal(err)
		}
		data = got.Data
		e.Pending()
	}
	for range 32 {
		step()
	}
	if got := testing.AllocsPerRun(32, step); got != 0 {
		t.Errorf("%v allocations per frame with %d threads", got, threads)
	}
}

var motions = [1]Motion{{Rect: image.Rect(100, 100, 500, 400), DY: -13, DX: 1}}

// TestRefinesWhatIsQuiet checks that a coarse picture is refined while it does not change.
func TestRefinesWhatIsQuiet(t *testing.T) {
	t.Parallel()
	f, _ := still(t, 640, 480)
	e, err := New(Config{Width: 640, Height: 480, MinQuantizer: 60, Bitrate: 2_000_000})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(50, 0)
	idle := NewDirty(640, 480)
	encode := func(d *Dirty) Encoded {
		got, err := e.Encode(nil, f, EncodeOptions{Dirty: d, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	encode(nil)
	before := lumaError(f, e.Reconstructed())
	due, blocks := e.Pending()
	if blocks != 40*30 || due.Before(now.Add(100*time.Millisecond)) || due.After(now.Add(200*time.Millisecond)) {
		t.Fatalf("Pending() = %v after the frame, %d", due.Sub(now), blocks)
	}
	now = now.Add(100 * time.Millisecond)
	if got := encode(idle); got.Refined != 0 {
		t.Errorf("refined %d before anything was due", got.Refined)
	}
	var bits, frames int
	for start := now; ; frames++ {
		if due, blocks = e.Pending(); blocks == 0 {
			break
		}
		if frames > 500 {
			t.Fatal("never done")
		}
		if now = due; now.Sub(start) > 5*time.Second {
			t.Fatal("takes too long")
		}
		got := encode(idle)
		bits += 8 * len(got.Data)
		if most := 4 * 2_000_000 / 30; 8*len(got.Data) > most {
			t.Errorf("a frame of refinement has %d bits", 8*len(got.Data))
		}
	}
	if after := lumaError(f, e.Reconstructed()); after > 1 || after > before/4 {
		t.Errorf("a squared error of %.2f was refined to %.2f only", before, after)
	}
	t.Logf("%d bits in %d frames, squared error %.2f to %.2f", bits, frames, before, lumaError(f, e.Reconstructed()))
	if !due.IsZero() {
		t.Errorf("Pending() = %v for no blocks", due)
	}
}

// TestClockJumps sets the clock back by a day before a picture could be refined.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	f, _ := still(t, 320, 240)
	e, err := New(Config{Width: 320, Height: 240, MinQuantizer: 60})
	if err != nil {
		t.Fatal(err)
	}
	idle := NewDirty(320, 240)
	now := time.Unix(1e9, 0)
	encode := func(d *Dirty) {
		if _, err := e.Encode(nil, f, EncodeOptions{Dirty: d, Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	encode(nil)
	now = now.Add(-24 * time.Hour)
	encode(idle)
	for range 100 {
		due, blocks := e.Pending()
		if blocks == 0 {
			return
		}
		if wait := due.Sub(now); wait < 0 || wait > time.Second {
			t.Fatalf("Pending() is in %v", wait)
		}
		now = due
		encode(idle)
	}
	t.Error("never refined")
}

// BenchmarkSmall measures the cost of small changes, or none, in a frame of 1920x1080.
func BenchmarkSmall(b *testing.B) {
	for _, k := range []struct {
		name string
		area image.Rectangle
	}{{"nothing", image.Rectangle{}}, {"256x32", image.Rect(800, 500, 1056, 532)}} {
		b.Run(k.name, func(b *testing.B) {
			f, c := still(b, 1920, 1080)
			e, err := New(Config{Width: 1920, Height: 1080, RefineQuantizer: -1})
			if err != nil {
				b.Fatal(err)
			}
			dirty, rnd := NewDirty(1920, 1080), rand.New(rand.NewPCG(3, 3))
			var data []byte
			size := 0
			n := 0
			for b.Loop() {
				b.StopTimer()
				dirty.Clear()
				c.fill(k.area, 0x202020)
				c.text(mono(), k.area.Min.X, k.area.Min.Y, sentence(rnd, 30), 0xffffff, k.area)
				f.SetBGRX(c.pix, c.stride, k.area, dirty)
				b.StartTimer()
				got, err := e.Encode(data[:0], f, EncodeOptions{Dirty: dirty})
				if err != nil {
					b.Fatal(err)
				}
				data = got.Data
				size += len(data)
				n++
			}
			b.ReportMetric(float64(size)/float64(n), "B/frame")
		})
	}
}

// BenchmarkKey measures key frames of a desktop with text, for different numbers of workers. It
// reports the shortest time.
func BenchmarkKey(b *testing.B) {
	for _, threads := range []int{1, 2, 4} {
		b.Run(strconv.Itoa(threads), func(b *testing.B) {
			f, _ := still(b, 1920, 1080)
			e, err := New(Config{Width: 1920, Height: 1080, MinQuantizer: 24, MaxQuantizer: 24, Threads: threads})
			if err != nil {
				b.Fatal(err)
			}
			best, n := time.Hour, 0
			var data []byte
			start := cpuTime(b)
			for b.Loop() {
				begin := time.Now()
				got, err := e.Encode(data[:0], f, EncodeOptions{Key: true})
				if err != nil {
					b.Fatal(err)
				}
				best = min(best, time.Since(begin))
				data = got.Data
				n++
			}
			b.ReportMetric((cpuTime(b)-start).Seconds()*1e3/float64(n), "cpu-ms")
			b.ReportMetric(best.Seconds()*1e3, "best-ms")
		})
	}
}
