package desktop_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/x11"
)

// TestMemoryOfScreenshots takes many screenshots of a large screen at the same time, while a
// program draws, so that each could hold another picture of the screen.
func TestMemoryOfScreenshots(t *testing.T) {
	const (
		width, height = 3840, 2160
		shots         = 40
		enough        = 8         // screenshots after which the others are cancelled
		most          = 600 << 20 // the limit, one frame of the capture, and the memory of encoders
	)
	d := start(t, desktop.Config{Size: desktop.Size{Width: width, Height: height}})
	st := d.Status()
	c, err := x11.Dial(t.Context(), x11.Config{Display: st.Display, Authority: st.Authority})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var drawing sync.WaitGroup
	drawing.Go(func() {
		for colour := uint32(0); ctx.Err() == nil; colour = (colour + 1) & 0xffffff {
			if err := c.FillRoot(colour); err != nil {
				t.Error(err)
				return
			}
		}
	})
	results := make(chan error, shots)
	for i := range shots {
		go func() {
			region := &desktop.Rect{X: i, Width: width, Height: height}
			_, err := d.Screenshot(ctx, desktop.ScreenshotOptions{Region: region, Scale: 0.9})
			results <- err
		}()
	}
	var peak uint64
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; n < shots; {
		select {
		case <-tick.C:
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		case err := <-results:
			if n++; n == enough {
				cancel()
			}
			var slow *desktop.DeadlineError // with the race detector
			if err != nil && !errors.As(err, &slow) && (n <= enough || !errors.Is(err, context.Canceled)) {
				t.Errorf("screenshot: %v", err)
			}
		}
	}
	cancel()
	drawing.Wait()
	grown := int64(peak) - int64(before.HeapAlloc)
	t.Logf("the heap grew by %d MiB", grown>>20)
	if grown > most {
		t.Errorf("the heap grew by %d MiB for %d screenshots, want at most %d", grown>>20, shots, most>>20)
	}
}
