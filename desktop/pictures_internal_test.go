package desktop

import (
	"context"
	"errors"
	"image"
	"testing"
)

// A screenshot of a desktop of another kind waits, without a frame, for the one before.
func TestPicturesTakeTurns(t *testing.T) {
	t.Parallel()
	p := NewPictures()
	p.Show(image.NewRGBA(image.Rect(0, 0, 64, 64)))
	if err := p.turn.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() {
		_, err := p.Take(ctx, ScreenshotOptions{}, Point{})
		waits <- err
	}()
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("while another picture is made: %v", err)
	}
	p.turn.Release(1)
	for range 2 {
		if _, err := p.Take(t.Context(), ScreenshotOptions{}, Point{}); err != nil {
			t.Error(err)
		}
	}
}
