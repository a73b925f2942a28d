package x11_test

import (
	"bytes"
	"image"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// same compares w times h pixels, which have four bytes each, in rows of that
// many bytes. It ignores the fourth byte.
func same(a []byte, strideA int, b []byte, strideB, w, h int) bool {
	for y := range h {
		for x := range w {
			i, j := y*strideA+4*x, y*strideB+4*x
			if !bytes.Equal(a[i:i+3], b[j:j+3]) {
				return false
			}
		}
	}
	return true
}

func noise(w, h int, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	pix := make([]byte, 4*w*h)
	for i := range pix {
		pix[i] = byte(random.Uint32())
	}
	return pix
}

// canvasAt opens a canvas until the test ends, and returns how to see it.
func canvasAt(t *testing.T, c *x11.Conn, r image.Rectangle) (cv *x11.Canvas, look func() []byte, stride int) {
	t.Helper()
	cv, err := c.NewCanvas(r.Min.X, r.Min.Y, r.Dx(), r.Dy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cv.Close(); err != nil {
			t.Error(err)
		}
	})
	p := newPainter(t, c)
	const width, height = 640, 480
	return cv, func() []byte {
		return p.screen(width, height)[(r.Min.Y*width+r.Min.X)*4:]
	}, 4 * width
}

func TestCanvasPictures(t *testing.T) {
	t.Parallel()
	c := testx11.Start(t, 640, 480).Dial(t)
	r := image.Rect(30, 50, 630, 470)
	cv, look, stride := canvasAt(t, c, r)
	w, h := r.Dx(), r.Dy()
	one, two := noise(w, h, 1), noise(w, h, 2) // each is a megabyte: several requests
	for i, pix := range [][]byte{one, two} {
		if n, err := cv.Keep(pix); err != nil || n != i {
			t.Fatalf("Keep = %d, %v, want %d", n, err, i)
		}
	}
	if _, err := cv.Keep(one[4:]); err == nil {
		t.Error("a picture of another size was kept")
	}
	for i, pix := range [][]byte{one, two} {
		if err := c.Draw(func() { cv.Show(i) }); err != nil {
			t.Fatal(err)
		}
		if !same(look(), stride, pix, 4*w, w, h) {
			t.Errorf("picture %d is not shown", i)
		}
	}
	if err := c.Draw(func() { cv.Put(0, 0, w, h, one) }); err != nil {
		t.Fatal(err)
	}
	if !same(look(), stride, one, 4*w, w, h) {
		t.Error("what was put is not shown")
	}
	part := noise(16, 8, 3)
	cv.Put(100, 200, 16, 8, part)
	if !same(look()[200*stride+400:], stride, part, 64, 16, 8) {
		t.Error("the part that was put is not shown")
	}
}

func TestCanvasPrint(t *testing.T) {
	t.Parallel()
	c := testx11.Start(t, 640, 480).Dial(t)
	const lines = 5
	r := image.Rect(7, 9, 7+500, 9+lines*x11.CanvasCellHeight)
	cv, look, stride := canvasAt(t, c, r)
	long := string(bytes.Repeat([]byte("x"), 300)) // more than one request takes
	cv.Print("one", long[:80])
	first := look()
	cv.Print("two", "three")
	second := look()
	up := 2 * x11.CanvasCellHeight
	rows := r.Dy() - up
	if !same(first[up*stride:], stride, second, stride, r.Dx(), rows) {
		t.Error("the lines did not move up")
	}
	if same(first[rows*stride:], stride, second[rows*stride:], stride, r.Dx(), up) {
		t.Error("nothing new is at the bottom")
	}
	cv.Print(long)
	if last := look(); bytes.Count(last[(r.Dy()-6)*stride:][:4*500], []byte{0, 0, 0}) < 80 {
		t.Error("the long line is not shown to its end")
	}
}

func TestWatchPointer(t *testing.T) {
	t.Parallel()
	server := testx11.Start(t, 640, 480)
	c, mover := server.Dial(t), server.Dial(t)
	in, err := mover.NewInput()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	seen := make(chan image.Point, 10)
	stop, err := c.WatchPointer(func(x, y int) { seen <- image.Pt(x, y) })
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []image.Point{{10, 20}, {639, 479}, {0, 0}} {
		if err := in.Pointer.Move(p.X, p.Y); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-seen:
			if got != p {
				t.Errorf("WatchPointer reports %v, want %v", got, p)
			}
		case <-time.After(patience):
			t.Fatalf("WatchPointer does not report a move to %v", p)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := in.Pointer.Move(5, 5); err != nil {
		t.Fatal(err)
	}
	if err := c.Sync(); err != nil {
		t.Fatal(err)
	}
	select {
	case p := <-seen:
		t.Errorf("WatchPointer reports %v after its end", p)
	default:
	}
}
