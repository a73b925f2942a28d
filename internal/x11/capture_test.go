package x11_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// patience bounds each wait in these tests.
const patience = time.Minute

// painter draws on the root window through a separate connection.
type painter struct {
	tb   testing.TB
	x    *xgb.Conn
	root xproto.Window
	gc   xproto.Gcontext
}

func newPainter(tb testing.TB, c *x11.Conn) *painter {
	tb.Helper()
	p := &painter{tb: tb}
	p.x, p.root = c.Raw()
	p.gc, _ = xproto.NewGcontextId(p.x)
	err := xproto.CreateGCChecked(p.x, p.gc, xproto.Drawable(p.root), xproto.GcForeground|xproto.GcSubwindowMode,
		[]uint32{0, xproto.SubwindowModeIncludeInferiors}).Check()
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// fill draws a rectangle, and does not wait.
func (p *painter) fill(colour uint32, x, y, w, h int) {
	xproto.ChangeGC(p.x, p.gc, xproto.GcForeground, []uint32{colour})
	xproto.PolyFillRectangle(p.x, xproto.Drawable(p.root), p.gc,
		[]xproto.Rectangle{{X: int16(x), Y: int16(y), Width: uint16(w), Height: uint16(h)}})
}

// sync waits until everything is drawn.
func (p *painter) sync() {
	if _, err := xproto.GetInputFocus(p.x).Reply(); err != nil {
		p.tb.Errorf("paint: %v", err)
	}
}

// screen returns the whole screen from a single GetImage.
func (p *painter) screen(w, h int) []byte {
	p.tb.Helper()
	r, err := xproto.GetImage(p.x, xproto.ImageFormatZPixmap, xproto.Drawable(p.root), 0, 0, uint16(w), uint16(h), 0xffffffff).Reply()
	if err != nil {
		p.tb.Fatal(err)
	}
	return r.Data
}

// capture starts a capture that ends with the test.
func capture(tb testing.TB, c *x11.Conn) *x11.Capture {
	tb.Helper()
	cp, err := c.NewCapture()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cp.Close(); err != nil {
			tb.Error(err)
		}
	})
	return cp
}

func frame(tb testing.TB, cp *x11.Capture) *x11.Frame {
	tb.Helper()
	f, err := cp.Frame(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func pixel(f *x11.Frame, x, y int) uint32 {
	b := f.Pix[y*f.Stride+4*x:]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func waitClosed(tb testing.TB, what string, ch <-chan struct{}) {
	tb.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		tb.Fatalf("%s: nothing within %v", what, patience)
	}
}

// drain waits until c has handled every event that the server sent before.
func drain(tb testing.TB, c *x11.Conn) {
	tb.Helper()
	x, root := c.Raw()
	win, err := xproto.NewWindowId(x)
	if err != nil {
		tb.Fatal(err)
	}
	seen := make(chan struct{})
	defer c.Handle(func(ev xgb.Event) {
		if e, ok := ev.(xproto.ClientMessageEvent); ok && e.Window == win {
			close(seen)
		}
	})()
	xproto.CreateWindow(x, 0, win, root, 0, 0, 1, 1, 0, xproto.WindowClassInputOnly, 0, 0, nil)
	e := xproto.ClientMessageEvent{Format: 8, Window: win, Type: xproto.AtomString, Data: xproto.ClientMessageDataUnionData8New(make([]byte, 20))}
	xproto.SendEvent(x, false, win, 0, string(e.Bytes()))
	xproto.DestroyWindow(x, win)
	waitClosed(tb, "own event", seen)
}

func TestFrameShowsTheScreen(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			t.Parallel()
			s := testx11.Start(t, 320, 200)
			c := s.Dial(t)
			if !shared {
				c.WithoutShm()
			}
			p := newPainter(t, s.Dial(t))
			cp := capture(t, c)
			first := frame(t, cp)
			defer first.Release()
			if first.Width != 320 || first.Height != 200 || first.Stride != 1280 || first.BandHeight != 16 || len(first.Bands) != 13 {
				t.Fatalf("frame is %dx%d, stride %d, %d bands of %d", first.Width, first.Height, first.Stride, len(first.Bands), first.BandHeight)
			}
			if got := cp.SharesMemory(); got != shared {
				t.Errorf("memory shared with the server: %v, want %v", got, shared)
			}
			p.fill(0x123456, 10, 20, 30, 40)
			p.fill(0xfedcba, 300, 190, 20, 10)
			p.sync()
			f := frame(t, cp)
			defer f.Release()
			for y := range 200 {
				for x := range 320 {
					want := uint32(0)
					if x >= 10 && x < 40 && y >= 20 && y < 60 {
						want = 0x123456
					} else if x >= 300 && y >= 190 {
						want = 0xfedcba
					}
					if got := pixel(f, x, y); got != want {
						t.Fatalf("pixel %d,%d is %06x, want %06x", x, y, got, want)
					}
				}
			}
			want := slices.Repeat([]uint64{first.Seq}, 13)
			want[1], want[2], want[3], want[11], want[12] = f.Seq, f.Seq, f.Seq, f.Seq, f.Seq
			if !slices.Equal(f.Bands, want) || f.Seq <= first.Seq {
				t.Errorf("seq %d after %d, bands %v, want %v", f.Seq, first.Seq, f.Bands, want)
			}
			if !bytes.Equal(first.Pix, make([]byte, len(first.Pix))) {
				t.Error("a held frame changed")
			}
		})
	}
}

// TestFrameRandomDrawing compares with the whole screen after each of many
// drawings, and checks every Seq and band against the pixels.
func TestFrameRandomDrawing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		w, h   int
		shared bool
	}{{640, 480, true}, {641, 479, true}, {17, 33, true}, {1, 1, true}, {333, 211, false}} {
		t.Run(fmt.Sprintf("%dx%d,shared=%v", tt.w, tt.h, tt.shared), func(t *testing.T) {
			t.Parallel()
			s := testx11.Start(t, tt.w, tt.h)
			c := s.Dial(t)
			if !tt.shared {
				c.WithoutShm()
			}
			p := newPainter(t, s.Dial(t))
			cp := capture(t, c)
			last := frame(t, cp)
			var held []heldFrame
			rnd := rand.New(rand.NewPCG(1, uint64(tt.w)))
			for range 150 {
				draw(p, rnd, tt.w, tt.h)
				want := p.screen(tt.w, tt.h)
				before := heldFrame{last, bytes.Clone(last.Pix), last.Seq, slices.Clone(last.Bands)}
				if rnd.IntN(3) > 0 {
					last.Release() // so that the next may be made in place
				} else {
					held = append(held, before)
				}
				f := frame(t, cp)
				compare(t, before, f, want)
				if t.Failed() {
					f.Release()
					break
				}
				if len(held) > 5 {
					held[0].release(t)
					held = held[1:]
				}
				last = f
			}
			for _, h := range held {
				h.release(t)
			}
		})
	}
}

// heldFrame is a frame with a copy of its content at the time when it was taken.
type heldFrame struct {
	f     *x11.Frame
	pix   []byte
	seq   uint64
	bands []uint64
}

func (h heldFrame) release(t *testing.T) {
	t.Helper()
	if !bytes.Equal(h.f.Pix, h.pix) || h.f.Seq != h.seq || !slices.Equal(h.f.Bands, h.bands) {
		t.Error("a held frame changed")
	}
	h.f.Release()
}

// draw makes a random drawing, which may change no pixel.
func draw(p *painter, rnd *rand.Rand, w, h int) {
	x, y := rnd.IntN(w), rnd.IntN(h)
	for range 1 + rnd.IntN(3) {
		colour := rnd.Uint32N(4) * 0x405060
		switch rnd.IntN(6) {
		case 0: // as large as may be
			p.fill(colour, rnd.IntN(w), rnd.IntN(h), 1+rnd.IntN(w), 1+rnd.IntN(h))
		case 1:
			p.fill(colour, x, y, 1+rnd.IntN(9), 1+rnd.IntN(9))
		case 2:
			xproto.PolyLine(p.x, xproto.CoordModeOrigin, xproto.Drawable(p.root), p.gc,
				[]xproto.Point{{X: int16(x), Y: int16(y)}, {X: int16(rnd.IntN(w)), Y: int16(rnd.IntN(h))}})
		case 3: // as scrolling does
			xproto.CopyArea(p.x, xproto.Drawable(p.root), xproto.Drawable(p.root), p.gc, int16(x), int16(y),
				int16(rnd.IntN(w)), int16(rnd.IntN(h)), uint16(1+rnd.IntN(w)), uint16(1+rnd.IntN(h)))
		case 4:
			n := min(8, w-x)
			xproto.PutImage(p.x, xproto.ImageFormatZPixmap, xproto.Drawable(p.root), p.gc, uint16(n), 1,
				int16(x), int16(y), 0, 24, bytes.Repeat([]byte{byte(colour), 7, 9, 0}, n))
		case 5: // nothing at all
		}
	}
}

// compare checks f against the screen and against the previous frame.
func compare(t *testing.T, before heldFrame, f *x11.Frame, want []byte) {
	t.Helper()
	if !bytes.Equal(f.Pix, want) {
		t.Fatal("the frame is not the screen")
	}
	if changed := !bytes.Equal(before.pix, want); changed != (f.Seq > before.seq) || f.Seq < before.seq {
		t.Fatalf("pixels changed: %v, but seq %d after %d", changed, f.Seq, before.seq)
	}
	for i, seq := range f.Bands {
		a, b := i*f.BandHeight*f.Stride, min((i+1)*f.BandHeight, f.Height)*f.Stride
		wantSeq := before.bands[i]
		if !bytes.Equal(before.pix[a:b], want[a:b]) {
			wantSeq = f.Seq
		}
		if seq != wantSeq {
			t.Fatalf("band %d has seq %d, want %d", i, seq, wantSeq)
		}
	}
}

// TestFrameUnchanged draws the same pixels again: that is damage, but no change.
func TestFrameUnchanged(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 200, 100)
	c := s.Dial(t)
	p := newPainter(t, s.Dial(t))
	cp := capture(t, c)
	p.fill(0x778899, 0, 0, 200, 100)
	p.sync()
	f := frame(t, cp)
	defer f.Release()
	for range 20 {
		damaged := cp.Damaged()
		p.fill(0x778899, 50, 50, 20, 20)
		waitClosed(t, "damage", damaged)
		again := frame(t, cp)
		if again != f || again.Seq != 1 {
			t.Errorf("another frame, seq %d, of the same picture", again.Seq)
		}
		again.Release()
	}
}

// TestCaptureTrim keeps the change numbers of unchanged pixels after Trim.
func TestCaptureTrim(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 200, 100)
	p := newPainter(t, s.Dial(t))
	c := s.Dial(t)
	cp := capture(t, c)
	cp.Trim() // there is no frame
	look := func() (seq uint64, bands []uint64) {
		t.Helper()
		f := frame(t, cp)
		defer f.Release()
		if want := p.screen(f.Width, f.Height); !bytes.Equal(f.Pix, want) {
			t.Error("the frame is not the screen")
		}
		return f.Seq, slices.Clone(f.Bands)
	}
	trim := func() {
		t.Helper()
		cp.Trim()
		if !cp.Trimmed() {
			t.Error("Trim kept memory")
		}
	}
	p.fill(0x778899, 0, 0, 200, 100)
	p.sync()
	look()
	p.fill(0x123456, 0, 40, 200, 1)
	p.sync()
	seq, bands := look()
	if want := []uint64{1, 1, 2, 1, 1, 1, 1}; seq != 2 || !slices.Equal(bands, want) {
		t.Fatalf("frame %d with bands %d, want 2 with %d", seq, bands, want)
	}

	trim()
	trim()
	if seq, again := look(); seq != 2 || !slices.Equal(again, bands) {
		t.Errorf("unchanged: frame %d with bands %d, want 2 with %d", seq, again, bands)
	}
	trim()
	p.fill(0x654321, 0, 80, 200, 1)
	p.sync()
	if seq, again := look(); seq != 3 || !slices.Equal(again, []uint64{1, 1, 2, 1, 1, 3, 1}) {
		t.Errorf("band 5 changed: frame %d with bands %d", seq, again)
	}
	trim()
	if err := c.SetSize(160, 100); err != nil {
		t.Fatal(err)
	}
	if seq, again := look(); seq != 4 || !slices.Equal(again, []uint64{4, 4, 4, 4, 4, 4, 4}) {
		t.Errorf("another size: frame %d with bands %d", seq, again)
	}
	if err := cp.Close(); err != nil {
		t.Fatal(err)
	}
	cp.Trim()
}

// TestFrameXIDs: frames use up no resource numbers, which are limited.
func TestFrameXIDs(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 64, 64)
	c := s.Dial(t)
	p := newPainter(t, s.Dial(t))
	cp := capture(t, c)
	frame(t, cp).Release()
	x, _ := c.Raw()
	before, err := x.NewId()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		p.fill(uint32(i), 0, 0, 64, i)
		p.sync()
		frame(t, cp).Release()
		if err := c.SetSize(32+i%2, 32); err != nil {
			t.Fatal(err)
		}
	}
	after, err := x.NewId()
	if err != nil {
		t.Fatal(err)
	}
	if after != before+1 {
		t.Errorf("50 frames and resizes took %d resource numbers", after-before-1)
	}
}

// TestFrameNotTorn takes frames on many goroutines while another client alternates between
// the two drawings of each round: the top, then everything. A frame whose top
// and rest come from different moments is detected, and so is an outdated frame.
func TestFrameNotTorn(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			t.Parallel()
			s := testx11.Start(t, 400, 300)
			c := s.Dial(t)
			if !shared {
				c.WithoutShm()
			}
			p := newPainter(t, s.Dial(t))
			cp := capture(t, c)
			frame(t, cp).Release()
			var drawn atomic.Uint32
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for n := uint32(1); !isClosed(stop); n++ {
					p.fill(n, 0, 0, 400, 10)
					if n%3 == 0 {
						p.sync() // so that callers meet this state too
					}
					p.fill(n, 0, 0, 400, 300)
					p.sync()
					drawn.Store(n)
				}
			})
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					var seq uint64
					for range 150 {
						least := drawn.Load()
						f, err := cp.Frame(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						top, rest := pixel(f, 0, 0), pixel(f, 0, 10)
						if top != rest && top != rest+1 || rest < least || f.Seq < seq || !uniform(f, 0, 10) || !uniform(f, 10, 300) {
							t.Errorf("top %d, rest %d, at least %d, seq %d after %d", top, rest, least, f.Seq, seq)
						}
						seq = f.Seq
						f.Release()
					}
				})
			}
			callers.Wait()
			close(stop)
			wg.Wait()
			if drawn.Load() < 10 {
				t.Errorf("only %d rounds were drawn", drawn.Load())
			}
		})
	}
}

// uniform reports whether rows a to b have one colour.
func uniform(f *x11.Frame, a, b int) bool {
	rows := f.Pix[a*f.Stride : b*f.Stride]
	return bytes.Equal(rows[4:], rows[:len(rows)-4])
}

func TestFrameContext(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 100, 100)
	c := s.Dial(t)
	cp := capture(t, c)
	frame(t, cp).Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cp.Frame(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Frame with an ended context: %v", err)
	}
	// One caller waits for a server that hangs. Another waits for its turn until its context
	// ends.
	pid, err := c.ServerPID()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	var wg sync.WaitGroup
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var failed atomic.Int32
	for range 3 {
		wg.Go(func() {
			f, err := cp.Frame(ctx)
			if err == nil {
				f.Release()
			} else if failed.Add(1) == 2 {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		})
	}
	wg.Wait()
	if failed.Load() != 2 {
		t.Errorf("%d of 3 callers gave up, want 2", failed.Load())
	}
	frame(t, cp).Release()
}

func TestCaptureClose(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 100, 100)
	c := s.Dial(t)
	cp := capture(t, c)
	f := frame(t, cp)
	damaged := cp.Damaged()
	for range 2 {
		if err := cp.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !isClosed(damaged) || !isClosed(cp.Damaged()) {
		t.Error("Damaged is open after Close")
	}
	if _, err := cp.Frame(t.Context()); !errors.Is(err, x11.ErrCaptureClosed) {
		t.Errorf("Frame after Close: %v", err)
	}
	_ = f.Pix[len(f.Pix)-1] // stays valid
	f.Release()
	other := capture(t, c)
	frame(t, other).Release()
}

// TestCaptureServerKilled kills the server in the middle of captures.
func TestCaptureServerKilled(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 800, 600)
	c := s.Dial(t)
	p := newPainter(t, c)
	cp := capture(t, c)
	idle := capture(t, c)
	frame(t, idle).Release()
	damaged := idle.Damaged()
	pid, err := c.ServerPID()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var frames atomic.Int32
	for i := range 3 {
		wg.Go(func() {
			for n := uint32(0); ; n++ {
				if i == 0 {
					p.fill(n, 0, 0, 800, 600)
				}
				f, err := cp.Frame(t.Context())
				if err != nil {
					if !errors.Is(err, x11.ErrConnClosed) {
						t.Errorf("Frame of a killed server: %v", err)
					}
					return
				}
				f.Release()
				if frames.Add(1) == 60 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	waitClosed(t, "end of the callers", ended)
	waitClosed(t, "Damaged", damaged)
	waitClosed(t, "Done", c.Done())
	if _, _, err := c.Size(); !errors.Is(err, x11.ErrConnClosed) {
		t.Errorf("Size of a killed server: %v", err)
	}
	if _, err := c.Cursor(); !errors.Is(err, x11.ErrConnClosed) {
		t.Errorf("Cursor of a killed server: %v", err)
	}
	if err := c.SetSize(100, 100); !errors.Is(err, x11.ErrConnClosed) {
		t.Errorf("SetSize of a killed server: %v", err)
	}
	if _, err := c.NewCapture(); !errors.Is(err, x11.ErrConnClosed) {
		t.Errorf("NewCapture of a killed server: %v", err)
	}
}
