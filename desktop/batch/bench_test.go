package batch_test

import (
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/internal/testx11"
)

// BenchmarkDo clicks, settles and takes a picture of 1440x900: in one batch, and by single
// calls.
func BenchmarkDo(b *testing.B) {
	testx11.Require(b, "Xvfb", "openbox", "dbus-daemon", "xterm")
	d, err := desktop.Start(b.Context(), desktop.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if _, err := d.Launch(b.Context(), desktop.Launch{App: "xterm", Wait: true}); err != nil {
		b.Fatal(err)
	}
	const quiet, most = 50 * time.Millisecond, 2 * time.Second
	at := func(n int) *desktop.Point { return &desktop.Point{X: 600 + n*37%200, Y: 400 + n*23%100} }
	b.Run("batch", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			r, err := batch.Do(b.Context(), batch.Target{Desktop: d}, batch.Batch{
				Actions: []batch.Action{batch.Click{At: at(n)}}, Settle: &batch.Settle{Quiet: quiet, Timeout: most},
				Observe: batch.Observe{Screenshot: &desktop.ScreenshotOptions{}},
			})
			if err != nil || r.Done() != 1 {
				b.Fatal(err)
			}
		}
	})
	b.Run("calls", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			if _, err := d.Click(b.Context(), desktop.Click{At: at(n)}); err != nil {
				b.Fatal(err)
			}
			if _, err := d.Screenshot(b.Context(), desktop.ScreenshotOptions{Settle: quiet, SettleTimeout: most}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
