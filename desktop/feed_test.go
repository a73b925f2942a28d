package desktop_test

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// next returns the next frame of a feed.
func next(t *testing.T, f *desktop.Feed) desktop.FeedFrame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	frame, err := f.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// wantScreen fails unless a frame has the pixels of a screenshot.
func wantScreen(t *testing.T, d *desktop.Desktop, frame desktop.FeedFrame) {
	t.Helper()
	shot, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size.X != frame.Size.Width || size.Y != frame.Size.Height {
		t.Fatalf("frame is %v, the screen %v", frame.Size, size)
	}
	for y := range frame.Size.Height {
		for x := range frame.Size.Width {
			r, g, b, _ := img.At(x, y).RGBA()
			p := frame.Pix[y*frame.Stride+4*x:]
			if p[0] != byte(b>>8) || p[1] != byte(g>>8) || p[2] != byte(r>>8) {
				t.Fatalf("pixel %d,%d is %v, on the screen %d,%d,%d", x, y, p[:3], b>>8, g>>8, r>>8)
			}
		}
	}
}

func TestFeed(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	d := start(t, desktop.Config{Size: desktop.Size{Width: 640, Height: 480}})
	f := d.Feed()
	defer func() { _ = f.Close() }()
	frame := next(t, f)
	if !frame.Reset || len(frame.Changed) != 1 || frame.Changed[0] != (desktop.Rect{Width: 640, Height: 480}) {
		t.Errorf("the first frame has changed in %v, reset %v", frame.Changed, frame.Reset)
	}
	wantScreen(t, d, frame)

	idle, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.Next(idle); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frame of a screen that does not change: %v", err)
	}

	// A window changes a part of the screen.
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-geometry", "20x3+100+200"}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	frame = next(t, f)
	if frame.Reset || len(frame.Changed) == 0 || frame.Changed[0].Y < 150 {
		t.Errorf("a window has changed %v, reset %v", frame.Changed, frame.Reset)
	}

	if err := d.Resize(t.Context(), desktop.Size{Width: 801, Height: 603}); err != nil {
		t.Fatal(err)
	}
	for frame = next(t, f); frame.Size.Width != 801; frame = next(t, f) {
	}
	if !frame.Reset || frame.Changed[0] != (desktop.Rect{Width: 801, Height: 603}) {
		t.Errorf("after a change of size: %v, reset %v", frame.Changed, frame.Reset)
	}

	// After the X server has died, the feed shows the next one.
	for _, p := range d.Status().Processes {
		if p.Name == "Xvfb" {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	for frame = next(t, f); !frame.Reset; frame = next(t, f) {
	}
	if frame.Size != (desktop.Size{Width: 801, Height: 603}) {
		t.Errorf("the new X server's screen is %v", frame.Size)
	}

	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Next(t.Context()); !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestFollowCursor(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	d := start(t, desktop.Config{Size: desktop.Size{Width: 640, Height: 480}})
	images := make(chan desktop.CursorImage, 10)
	done := make(chan error, 1)
	go func() { done <- d.FollowCursor(context.Background(), func(c desktop.CursorImage) { images <- c }) }()
	first := <-images
	if first.Width <= 0 || len(first.Pix) != 4*first.Width*first.Height {
		t.Errorf("image of %dx%d has %d bytes", first.Width, first.Height, len(first.Pix))
	}
	// Text has another pointer than the desktop.
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-geometry", "80x24+0+0"}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: 100, Y: 100}}); err != nil {
		t.Fatal(err)
	}
	select {
	case second := <-images:
		if bytes.Equal(first.Pix, second.Pix) {
			t.Error("the same image came twice")
		}
	case <-time.After(10 * time.Second):
		t.Error("FollowCursor did not report a new cursor")
	case err := <-done:
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("FollowCursor: %v", err)
	}
}
