package recording

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// plane returns a picture of one colour, in limited range BT.601 as in recordings.
func plane(w, h int, y, u, v byte) *image.YCbCr {
	cw, ch := w/2, h/2
	return &image.YCbCr{
		Y: bytes.Repeat([]byte{y}, w*h), Cb: bytes.Repeat([]byte{u}, cw*ch), Cr: bytes.Repeat([]byte{v}, cw*ch),
		YStride: w, CStride: cw, Rect: image.Rect(0, 0, w, h),
	}
}

// with draws a black rectangle on a picture.
func with(p *image.YCbCr, x, y, w, h int) *image.YCbCr {
	for j := y; j < y+h; j++ {
		for i := x; i < x+w; i++ {
			p.Y[j*p.YStride+i] = 16
		}
	}
	return p
}

func decode(t testing.TB, f *os.File, err error) image.Image {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := jpeg.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func near(a color.Color, r, g, b uint8) bool {
	ar, ag, ab, _ := a.RGBA()
	for _, d := range []int{int(ar>>8) - int(r), int(ag>>8) - int(g), int(ab>>8) - int(b)} {
		if d < -4 || d > 4 {
			return false
		}
	}
	return true
}

func TestShrinkColours(t *testing.T) {
	t.Parallel()
	// Y, U and V by ITU-R BT.601-7 of full red, green and blue.
	for _, c := range []struct {
		y, u, v byte
		r, g, b uint8
	}{
		{16, 128, 128, 0, 0, 0},
		{235, 128, 128, 255, 255, 255},
		{126, 128, 128, 128, 128, 128},
		{81, 90, 240, 255, 0, 0},
		{145, 54, 34, 0, 255, 0},
		{41, 240, 110, 0, 0, 255},
	} {
		p := plane(1000, 40, c.y, c.u, c.v)
		img := shrink(p, thumbWidth)
		if img.Rect.Dx() != 250 || img.Rect.Dy() != 10 {
			t.Fatalf("1000x40 became %v", img.Rect)
		}
		for _, at := range []image.Point{{}, {249, 9}, {100, 5}} {
			if !near(img.At(at.X, at.Y), c.r, c.g, c.b) {
				t.Errorf("%+v: %v at %v", c, img.At(at.X, at.Y), at)
			}
		}
	}
}

func TestShrinkAnySize(t *testing.T) {
	t.Parallel()
	for _, size := range []image.Point{{16, 16}, {320, 200}, {322, 202}, {642, 2}, {2, 900}, {16384, 16}} {
		p := plane(size.X, size.Y, 235, 128, 128)
		img := shrink(p, thumbWidth)
		if img.Rect.Dx() > thumbWidth || img.Rect.Empty() {
			t.Errorf("%v became %v", size, img.Rect)
		}
		last := img.Rect.Max.Sub(image.Pt(1, 1))
		if !near(img.At(last.X, last.Y), 255, 255, 255) {
			t.Errorf("%v: the last pixel is %v", size, img.At(last.X, last.Y))
		}
	}
}

func TestBlank(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p     *image.YCbCr
		blank bool
	}{
		"grey":             {plane(640, 480, 100, 128, 128), true},
		"with a pointer":   {with(plane(640, 480, 100, 128, 128), 320, 240, 12, 20), true},
		"with a window":    {with(plane(640, 480, 100, 128, 128), 320, 240, 120, 80), false},
		"window on middle": {with(plane(640, 480, 100, 128, 128), 100, 20, 440, 300), false},
	} {
		if blank := isBlank(shrink(c.p, thumbWidth)); blank != c.blank {
			t.Errorf("%s: blank is %v", name, blank)
		}
	}
}

// show offers a picture and waits until its thumbnail is made, if one is due.
func show(t testing.TB, th *thumbnailer, at time.Duration, p *image.YCbCr) {
	t.Helper()
	th.offer(at, p)
	until(t, "the picture", func() bool { return time.Duration(th.due.Load()) != never })
}

func TestThumbnails(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := growing(t, s)
	finished(e)
	if _, err := s.Poster(e.id); !errors.Is(err, ErrNoPicture) {
		t.Errorf("no poster yet: %v", err)
	}
	if _, _, err := s.Thumbnail(e.id, 0); !errors.Is(err, ErrNoPicture) {
		t.Errorf("no thumbnail yet: %v", err)
	}
	th := newThumbnailer(e.dir, 2*time.Second, slog.New(slog.DiscardHandler))
	grey := plane(640, 400, 126, 128, 128)
	show(t, th, 0, grey)
	if img, err := s.Poster(e.id); !near(decode(t, img, err).At(100, 100), 128, 128, 128) {
		t.Error("the first picture is not the poster")
	}
	show(t, th, 900*time.Millisecond, with(grey, 100, 100, 300, 200))
	show(t, th, 1500*time.Millisecond, plane(640, 400, 235, 128, 128)) // not due
	show(t, th, 4300*time.Millisecond, plane(640, 400, 81, 90, 240))
	show(t, th, 6100*time.Millisecond, plane(640, 400, 81, 90, 240)) // the same
	show(t, th, 9*time.Second, plane(640, 400, 41, 240, 110))
	th.stop()
	f, err := s.Poster(e.id)
	poster := decode(t, f, err)
	if poster.Bounds() != image.Rect(0, 0, 640, 400) || !near(poster.At(200, 200), 0, 0, 0) || !near(poster.At(600, 20), 128, 128, 128) {
		t.Errorf("the poster is not the first picture that is not blank: %v, %v", poster.Bounds(), poster.At(200, 200))
	}
	list, err := s.Thumbnails(e.id)
	if want := []time.Duration{0, 4 * time.Second, 9 * time.Second}; err != nil || !slices.Equal(list, want) {
		t.Fatalf("thumbnails at %v, %v", list, err)
	}
	for at, want := range map[time.Duration][4]uint8{
		0: {0, 128, 128, 128}, 3 * time.Second: {0, 128, 128, 128}, 4 * time.Second: {4, 255, 0, 0}, 8 * time.Second: {4, 255, 0, 0},
		time.Hour: {9, 0, 0, 255}, -1: {0, 128, 128, 128},
	} {
		f, got, err := s.Thumbnail(e.id, at)
		img := decode(t, f, err)
		if got != time.Duration(want[0])*time.Second || !near(img.At(50, 50), want[1], want[2], want[3]) || img.Bounds().Dx() != 320 {
			t.Errorf("the thumbnail at %v is from %v: %v, %v", at, got, img.Bounds(), img.At(50, 50))
		}
	}
	parts, err := filepath.Glob(filepath.Join(e.dir, "*", "*"+partSuffix))
	if err != nil || len(parts) > 0 {
		t.Errorf("left behind: %v, %v", parts, err)
	}
}

func TestNoThumbnails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	th := newThumbnailer(dir, -1, slog.New(slog.DiscardHandler))
	for i := range 20 {
		th.offer(time.Duration(i)*10*time.Second, with(plane(64, 64, byte(16+i), 128, 128), 0, 0, 20, 20))
	}
	th.stop()
	th.stop()
	if list, err := thumbnails(dir); err != nil || len(list) != 0 {
		t.Errorf("thumbnails at %v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(dir, posterFile)); err != nil {
		t.Error(err)
	}
}

// TestThumbnailsAreBounded offers pictures of most of a day.
func TestThumbnailsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	th := newThumbnailer(dir, 10*time.Second, slog.New(slog.DiscardHandler))
	th.limit = 72
	for i := range 200 {
		show(t, th, time.Duration(i)*10*time.Second, plane(16, 16, byte(16+i%200), byte(60+i%100), 128))
	}
	th.stop()
	list, err := thumbnails(dir)
	if err != nil || len(list) > th.limit || len(list) < th.limit/2 {
		t.Fatalf("%d thumbnails, %v", len(list), err)
	}
	for i := range list[1:] {
		if gap := list[i+1] - list[i]; gap != 40*time.Second {
			t.Fatalf("%v between two", gap)
		}
	}
	f, err := os.Open(thumbPath(dir, list[20]))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(io.Discard, f); err != nil {
		t.Error(err)
	}
}

func TestThumbnailInterval(t *testing.T) {
	t.Parallel()
	for d, ok := range map[time.Duration]bool{0: true, -1: true, time.Second: true, time.Millisecond: false} {
		if err := (Config{ThumbnailInterval: d}).withDefaults().check(); (err == nil) != ok {
			t.Errorf("%v: %v", d, err)
		}
	}
}

// BenchmarkThumbnail measures the cost of a thumbnail, for the recorder and in total.
func BenchmarkThumbnail(b *testing.B) {
	for _, size := range []image.Point{{1440, 900}, {1920, 1080}} {
		p := with(plane(size.X, size.Y, 100, 128, 128), 200, 200, 400, 400)
		b.Run(fmt.Sprintf("copy/%v", size), func(b *testing.B) {
			var c image.YCbCr
			for b.Loop() {
				copyTo(&c, p)
			}
		})
		b.Run(fmt.Sprintf("all/%v", size), func(b *testing.B) {
			dir := b.TempDir()
			for b.Loop() {
				if err := writeJPEG(filepath.Join(dir, "x.jpg"), shrink(p, thumbWidth), thumbQuality); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
