package desktop_test

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestPictures(t *testing.T) {
	t.Parallel()
	p := desktop.NewPictures()
	if _, err := p.Take(t.Context(), desktop.ScreenshotOptions{}, desktop.Point{}); !errors.Is(err, desktop.ErrRestarting) {
		t.Errorf("before anything was captured: %v", err)
	}
	screen := image.NewRGBA(image.Rect(5, 5, 105, 69)) // not at the origin
	for y := range 64 {
		for x := range 100 {
			screen.SetRGBA(5+x, 5+y, color.RGBA{uint8(x), uint8(y), 7, 255})
		}
	}
	if n := p.Show(screen); n != 1 {
		t.Errorf("first change: %d", n)
	}
	take := func(shot desktop.ScreenshotOptions) *desktop.Screenshot {
		t.Helper()
		pic, err := p.Take(t.Context(), shot, desktop.Point{X: 50, Y: 20})
		if err != nil {
			t.Fatal(err)
		}
		return pic
	}
	pic := take(desktop.ScreenshotOptions{})
	img, err := png.Decode(bytes.NewReader(pic.Data))
	if err != nil || img.Bounds() != image.Rect(0, 0, 100, 64) {
		t.Fatalf("%v, %v", img.Bounds(), err)
	}
	for _, at := range []image.Point{{0, 0}, {99, 63}, {37, 21}} {
		r, g, b, _ := img.At(at.X, at.Y).RGBA()
		if got, want := [3]uint32{r >> 8, g >> 8, b >> 8}, [3]uint32{uint32(at.X), uint32(at.Y), 7}; got != want {
			t.Errorf("pixel %v is %v", at, got)
		}
	}
	// The rows from 48 on change; pictures of others stay the same.
	top := &desktop.Rect{Width: 100, Height: 30}
	whole, upper := take(desktop.ScreenshotOptions{}).ID, take(desktop.ScreenshotOptions{Region: top}).ID
	if n := p.Show(screen); n != 1 || !take(desktop.ScreenshotOptions{IfChangedSince: whole}).Unchanged {
		t.Errorf("the same again: change %d", n)
	}
	screen.SetRGBA(5, 65, color.RGBA{255, 255, 255, 255})
	if n := p.Show(screen); n != 2 || take(desktop.ScreenshotOptions{IfChangedSince: whole}).Unchanged || !take(desktop.ScreenshotOptions{Region: top, IfChangedSince: upper}).Unchanged {
		t.Errorf("changed below: change %d", n)
	}
	cross := take(desktop.ScreenshotOptions{Cursor: desktop.CursorPointer})
	if bytes.Equal(cross.Data, take(desktop.ScreenshotOptions{}).Data) || cross.ID == take(desktop.ScreenshotOptions{}).ID {
		t.Error("no crosshair")
	}
	size := desktop.Size{Width: 100, Height: 64}
	half := take(desktop.ScreenshotOptions{Scale: 0.5})
	if at, err := p.OnScreen(desktop.Point{X: 10, Y: 10}, half.ID, size); err != nil || at != (desktop.Point{X: 21, Y: 21}) {
		t.Errorf("mapped to %v, %v", at, err)
	}
	if at, err := p.OnScreen(desktop.Point{X: 1000, Y: 10}, "", size); err != nil || at != (desktop.Point{X: 99, Y: 10}) {
		t.Errorf("at the edge: %v, %v", at, err)
	}
	for _, bad := range []string{"x", "obs_other." + strings.SplitN(whole, ".", 2)[1]} {
		if _, err := p.OnScreen(desktop.Point{}, bad, size); !errors.Is(err, desktop.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	// A screen of another size.
	if n := p.Show(image.NewRGBA(image.Rect(0, 0, 10, 10))); n != 3 || take(desktop.ScreenshotOptions{}).Size != (desktop.Size{Width: 10, Height: 10}) {
		t.Errorf("smaller: change %d", n)
	}
}

func TestEventLog(t *testing.T) {
	t.Parallel()
	l := desktop.NewEventLog("mine")
	sub := l.Subscribe(0)
	defer sub.Close()
	l.Emit(desktop.Event{Type: desktop.EventResized})
	l.Close()
	var got []desktop.EventType
	for e := range sub.Events() {
		if got = append(got, e.Type); e.Desktop != "mine" || e.Seq != uint64(len(got)) {
			t.Errorf("%+v", e)
		}
	}
	if len(got) != 2 || got[0] != desktop.EventResized || got[1] != desktop.EventClosed {
		t.Errorf("events: %q", got)
	}
}

// TestWatchChord presses a chord with and without the locks, in front of a
// window that has the focus.
func TestWatchChord(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	testx11.Require(t, "xterm")
	pressed := make(chan struct{}, 10)
	const chord = "ctrl+alt+shift+Escape"
	display, authority := d.Status().Display, d.Status().Authority
	w, err := desktop.WatchChord(t.Context(), display, authority, chord, func() { pressed <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := desktop.WatchChord(t.Context(), display, authority, chord, func() {}); err == nil {
		t.Error("two have the same chord")
	}
	for _, bad := range []string{"nose", "a+b"} {
		if _, err := desktop.WatchChord(t.Context(), display, authority, bad, func() {}); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true}); err != nil {
		t.Fatal(err)
	}
	for _, keys := range []string{chord, "alt+ctrl+shift+Escape", "Caps_Lock", chord, "Num_Lock", chord, "Caps_Lock", "Num_Lock", "ctrl+Escape", "Escape"} {
		if err := d.Press(t.Context(), desktop.Press{Keys: keys}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		select {
		case <-pressed:
		case <-time.After(20 * time.Second):
			t.Fatalf("seen %d times", i)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if len(pressed) > 0 {
		t.Errorf("seen %d times more", len(pressed))
	}
}
