package desktop_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// same compares the screen with an observation at points of it.
func same(ctx context.Context, d *desktop.Desktop, id string, windowOnly bool, points ...desktop.Point) error {
	return d.Exclusive(ctx, func(ctx context.Context, turn *desktop.Turn) error {
		return turn.Same(ctx, id, points, windowOnly)
	})
}

func picture(t *testing.T, d *desktop.Desktop, o desktop.ScreenshotOptions) *desktop.Screenshot {
	t.Helper()
	pic, err := d.Screenshot(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return pic
}

// TestSame: points are stale if the screen around them or their window has changed.
func TestSame(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	ctx := t.Context()
	before := picture(t, d, desktop.ScreenshotOptions{Scale: 0.5})
	onWindow, onRoot := desktop.Point{X: 200, Y: 150}, desktop.Point{X: 10, Y: 290}
	if err := same(ctx, d, before.ID, false, onWindow, onRoot); err != nil {
		t.Errorf("nothing has changed: %v", err)
	}
	app, err := d.Launch(ctx, desktop.Launch{App: "xterm", Args: []string{"-geometry", "40x10+300+200"}, Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	settled := desktop.ScreenshotOptions{Settle: 200 * time.Millisecond, SettleTimeout: 5 * time.Second}
	opened := picture(t, d, settled)
	var stale *desktop.StaleError
	for _, windowOnly := range []bool{false, true} {
		err = same(ctx, d, before.ID, windowOnly, onRoot, onWindow)
		if !errors.As(err, &stale) || !errors.Is(err, desktop.ErrStale) || stale.At != onWindow || stale.Reason != "another window is there" || len(stale.Changed) == 0 {
			t.Errorf("a window opened: %v", err)
		}
		if err := same(ctx, d, before.ID, windowOnly, onRoot); err != nil {
			t.Errorf("beside the window: %v", err)
		}
	}
	if err := d.Type(ctx, desktop.Type{Text: "cat\nxxxxxxxxxxxxxxxxxxxx"}); err != nil {
		t.Fatal(err)
	}
	picture(t, d, settled)
	text := desktop.Point{X: 320, Y: 225}
	if err := same(ctx, d, opened.ID, false, text); !errors.As(err, &stale) || stale.Reason != "the screen has changed" {
		t.Errorf("text changed: %v", err)
	}
	if err := same(ctx, d, opened.ID, true, text); err != nil {
		t.Errorf("text changed, compared by window: %v", err)
	}
	if _, err := d.MoveWindow(ctx, app.Window, desktop.Point{X: 300, Y: 400}); err != nil {
		t.Fatal(err)
	}
	if err := same(ctx, d, opened.ID, true, text); !errors.As(err, &stale) {
		t.Errorf("the window moved: %v", err)
	}
	if err := same(ctx, d, "obs_x", false, text); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("not an observation: %v", err)
	}
}

// TestSameBlinks: a caret that blinks does not make a point stale.
func TestSameBlinks(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-bc", "-geometry", "40x10+300+200"}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	caret := desktop.Point{X: 330, Y: 230}
	old := picture(t, d, desktop.ScreenshotOptions{Settle: 200 * time.Millisecond, SettleTimeout: 5 * time.Second})
	for differs := false; !differs; { // wait for the other phase
		now := picture(t, d, desktop.ScreenshotOptions{Since: old.ID})
		differs = len(now.Changed) > 0
	}
	if err := same(t.Context(), d, old.ID, false, caret); err != nil {
		t.Error(err)
	}
}

// TestSince: a screenshot has only what has changed since an observation.
func TestSince(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	ctx := t.Context()
	whole := picture(t, d, desktop.ScreenshotOptions{Scale: 0.5})
	if pic := picture(t, d, desktop.ScreenshotOptions{Scale: 0.5, Since: whole.ID}); !pic.Unchanged || pic.Data != nil || pic.Changed != nil || pic.ID != whole.ID {
		t.Errorf("nothing has changed: %+v", pic)
	}
	if _, err := d.Launch(ctx, desktop.Launch{App: "xterm", Args: []string{"-geometry", "20x5+300+200"}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	o := desktop.ScreenshotOptions{Scale: 0.5, Settle: 200 * time.Millisecond, SettleTimeout: 5 * time.Second, Since: whole.ID}
	part := picture(t, d, o)
	if part.Unchanged || part.Part == nil || part.Size != whole.Size || part.ID == whole.ID || len(part.Changed) == 0 {
		t.Fatalf("part = %+v", part.Observation)
	}
	if err := patched(t, whole, part, picture(t, d, desktop.ScreenshotOptions{Scale: 0.5})); err != "" {
		t.Error(err)
	}
	o.Scale = 1
	for name, since := range map[string]string{"of another size": whole.ID, "unknown": "obs_nothing"} {
		o.Since = since
		if pic := picture(t, d, o); pic.Part != nil || pic.Data == nil || len(pic.Changed) == 0 {
			t.Errorf("an observation that is %s: %+v", name, pic)
		}
	}
	bare := picture(t, d, desktop.ScreenshotOptions{ObservationOnly: true})
	if bare.Data != nil || bare.ID == "" || bare.Size.Width != 800 {
		t.Errorf("observation = %+v", bare)
	}
}

// patched says where a picture with a part over it differs from the picture after that.
func patched(t *testing.T, before, part, after *desktop.Screenshot) string {
	t.Helper()
	decode := func(s *desktop.Screenshot) image.Image {
		m, err := png.Decode(bytes.NewReader(s.Data))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	was, patch, is := decode(before), decode(part), decode(after)
	if b := patch.Bounds(); b.Dx() != part.Part.Width || b.Dy() != part.Part.Height {
		return "the part has another size"
	}
	for y := range is.Bounds().Dy() {
		for x := range is.Bounds().Dx() {
			at := image.Pt(x, y).Sub(image.Pt(part.Part.X, part.Part.Y))
			var got color.Color = was.At(x, y)
			if at.In(patch.Bounds()) {
				got = patch.At(at.X, at.Y)
			}
			if got != is.At(x, y) {
				return "a pixel differs"
			}
		}
	}
	return ""
}

// TestPictureBounds: pictures keep within the limits of their options.
func TestPictureBounds(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-geometry", "100x40+0+0", "-e", "od", "/dev/urandom"}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	if pic := picture(t, d, desktop.ScreenshotOptions{MaxEdge: 400}); pic.Size != (desktop.Size{Width: 400, Height: 300}) {
		t.Errorf("size = %v", pic.Size)
	}
	if pic := picture(t, d, desktop.ScreenshotOptions{MaxPixels: 120_000, Format: desktop.WebP}); pic.Size != (desktop.Size{Width: 400, Height: 300}) {
		t.Errorf("size = %v", pic.Size)
	}
	formats := ""
	for _, most := range []int{1 << 20, 60_000, 30_000, 8_000} {
		pic := picture(t, d, desktop.ScreenshotOptions{MaxBytes: most})
		if len(pic.Data) > most {
			t.Errorf("%d bytes, want at most %d", len(pic.Data), most)
		}
		formats += " " + string(pic.Format)
	}
	if !strings.HasPrefix(formats, " png") || !strings.HasSuffix(formats, "jpeg") {
		t.Errorf("formats are%s", formats)
	}
	if pic := picture(t, d, desktop.ScreenshotOptions{MaxBytes: 1}); pic.Size != (desktop.Size{Width: 80, Height: 60}) {
		t.Errorf("the smallest picture: %v", pic.Size)
	}
	if _, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{MaxBytes: -1}); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("MaxBytes -1: %v", err)
	}
}
