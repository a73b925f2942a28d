package x11_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jezek/xgb/randr"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// checkSize compares the size that c returns with the server's.
func checkSize(t *testing.T, c *x11.Conn, w, h int) {
	t.Helper()
	gotW, gotH, err := c.Size()
	if err != nil || gotW != w || gotH != h {
		t.Errorf("Size() = %d, %d, %v, want %dx%d", gotW, gotH, err, w, h)
	}
	x, root := c.Raw()
	g, err := xproto.GetGeometry(x, xproto.Drawable(root)).Reply()
	if err != nil || int(g.Width) != w || int(g.Height) != h {
		t.Errorf("root window is %+v, %v, want %dx%d", g, err, w, h)
	}
	res, err := randr.GetScreenResourcesCurrent(x, root).Reply()
	if err != nil {
		t.Fatal(err)
	}
	crtc, err := randr.GetCrtcInfo(x, res.Crtcs[0], res.ConfigTimestamp).Reply()
	if err != nil || int(crtc.Width) != w || int(crtc.Height) != h {
		t.Errorf("CRTC is %+v, %v, want %dx%d", crtc, err, w, h)
	}
}

func TestSetSize(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 800, 600)
	c, other := s.Dial(t), s.Dial(t)
	checkSize(t, c, 800, 600)
	sizes := make(chan [2]int, 100)
	other.OnResize(func(w, h int) { sizes <- [2]int{w, h} })
	for _, size := range [][2]int{{640, 480}, {801 - 200, 601 - 2}, {480, 600}, {600, 480}, {600, 480}, {1, 1}, {800, 600}, {799, 1}, {800, 600}} {
		wasW, wasH, _ := c.Size()
		if err := c.SetSize(size[0], size[1]); err != nil {
			t.Fatal(err)
		}
		checkSize(t, c, size[0], size[1])
		if size != [2]int{wasW, wasH} {
			if got := <-sizes; got != size {
				t.Errorf("another connection hears of %v, want %v", got, size)
			}
		}
	}
	if len(sizes) > 0 {
		t.Errorf("OnResize reports %v without a change", <-sizes)
	}
}

// TestSetSizeResolution: programs that start after a resize compute the same dots per inch as
// before.
func TestSetSizeResolution(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 1600, 1200)
	screen := func() xproto.ScreenInfo {
		x, _ := s.Dial(t).Raw()
		return *xproto.Setup(x).DefaultScreen(x)
	}
	before := screen()
	if err := s.Dial(t).SetSize(800, 300); err != nil {
		t.Fatal(err)
	}
	after := screen()
	if after.WidthInPixels != 800 || after.HeightInPixels != 300 {
		t.Errorf("a new connection sees %dx%d pixels", after.WidthInPixels, after.HeightInPixels)
	}
	w, h := (before.WidthInMillimeters+1)/2, (before.HeightInMillimeters+2)/4
	if after.WidthInMillimeters != w || after.HeightInMillimeters != h {
		t.Errorf("screen is %dx%d mm, want %dx%d", after.WidthInMillimeters, after.HeightInMillimeters, w, h)
	}
}

func TestSetSizeRange(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 640, 480)
	c := s.Dial(t)
	for _, size := range [][2]int{{641, 480}, {640, 481}, {0, 10}, {10, 0}, {-1, -1}, {1 << 20, 1 << 20}, {65536 + 100, 100}} {
		err := c.SetSize(size[0], size[1])
		if !errors.Is(err, x11.ErrScreenSize) || !strings.Contains(err.Error(), "640x480") {
			t.Errorf("SetSize(%d, %d) = %v, want one that names 640x480", size[0], size[1], err)
		}
	}
	checkSize(t, c, 640, 480)
}

// TestSetSizeModes: SetSize deletes its old modes.
func TestSetSizeModes(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 640, 480)
	c := s.Dial(t)
	modes := func() int {
		x, root := c.Raw()
		res, err := randr.GetScreenResourcesCurrent(x, root).Reply()
		if err != nil {
			t.Fatal(err)
		}
		return len(res.Modes)
	}
	before := modes()
	for i := range 20 {
		if err := c.SetSize(100+i, 100); err != nil {
			t.Fatal(err)
		}
		if got := modes(); got != before+1 {
			t.Fatalf("%d modes after %d sizes, want %d", got, i+1, before+1)
		}
	}
	// A mode that an earlier process has left, not in use and on no output.
	x, root := c.Raw()
	for _, name := range []string{"deskhand-50x50", "deskhand-51x51"} {
		if _, err := randr.CreateMode(x, root, randr.ModeInfo{Width: 50, Height: 50, NameLen: uint16(len(name))}, name).Reply(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SetSize(50, 50); err != nil {
		t.Fatal(err)
	}
	checkSize(t, c, 50, 50)
	if err := c.SetSize(640, 480); err != nil {
		t.Fatal(err)
	}
	if got := modes(); got != before {
		t.Errorf("%d modes at the first size, want %d", got, before)
	}
}

func TestSetSizeConcurrently(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 640, 480)
	c := s.Dial(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 10 {
				if err := c.SetSize(100+10*i+n, 200-n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w, h, _ := c.Size()
	checkSize(t, c, w, h)
}

// TestFillRoot: the area that a resize adds has the colour immediately.
func TestFillRoot(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 240)
	c := s.Dial(t)
	cp := capture(t, c)
	for i, size := range [][2]int{{320, 240}, {100, 50}, {320, 240}, {99, 240}, {320, 51}} {
		if err := c.SetSize(size[0], size[1]); err != nil {
			t.Fatal(err)
		}
		colour := uint32(0x2e3440)
		if i > 2 {
			colour = 0xc0ffee
		}
		if i == 0 || i == 3 {
			if err := c.FillRoot(colour); err != nil {
				t.Fatal(err)
			}
		}
		f := frame(t, cp)
		if f.Width != size[0] || f.Height != size[1] || pixel(f, 0, 0) != colour || !uniform(f, 0, f.Height) {
			t.Errorf("at %v: frame %dx%d, corner %06x", size, f.Width, f.Height, pixel(f, 0, 0))
		}
		f.Release()
	}
}

// TestFrameWhileResizing takes frames on several goroutines while the screen
// changes its size all the time.
func TestFrameWhileResizing(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			t.Parallel()
			s := testx11.Start(t, 400, 300)
			c := s.Dial(t)
			if !shared {
				c.WithoutShm()
			}
			if err := c.FillRoot(0x102030); err != nil {
				t.Fatal(err)
			}
			cp := capture(t, c)
			stop := make(chan struct{})
			var callers sync.WaitGroup
			for range 3 {
				callers.Go(func() {
					var seq uint64
					var w, h int
					for n := 0; n < 100 || !isClosed(stop); n++ {
						f, err := cp.Frame(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						resized := f.Width != w || f.Height != h
						if len(f.Pix) != f.Width*f.Height*4 || len(f.Bands) != (f.Height+15)/16 || resized && f.Seq <= seq || f.Seq < seq {
							t.Errorf("frame %dx%d: %d bytes, %d bands, seq %d after %d", f.Width, f.Height, len(f.Pix), len(f.Bands), f.Seq, seq)
						}
						if pixel(f, 0, 0) != 0x102030 || !uniform(f, 0, f.Height) {
							t.Errorf("frame %dx%d is not of one colour", f.Width, f.Height)
						}
						w, h, seq = f.Width, f.Height, f.Seq
						f.Release()
					}
				})
			}
			for i := range 60 {
				w, h := 400-(i*37)%399, 300-(i*53)%299
				if err := c.SetSize(w, h); err != nil {
					t.Fatal(err)
				}
				f := frame(t, cp)
				if f.Width != w || f.Height != h {
					t.Errorf("frame is %dx%d after SetSize %dx%d", f.Width, f.Height, w, h)
				}
				f.Release()
				if i == 59 {
					close(stop)
					callers.Wait()
					damaged := cp.Damaged()
					if err := c.SetSize(30, 30); err != nil {
						t.Fatal(err)
					}
					waitClosed(t, "new size", damaged)
				}
			}
		})
	}
}
