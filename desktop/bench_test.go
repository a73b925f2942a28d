package desktop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

func startBench(b *testing.B) *desktop.Desktop {
	b.Helper()
	testx11.Require(b, "Xvfb", "openbox", "dbus-daemon", "xterm")
	d, err := desktop.Start(b.Context(), desktop.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	return d
}

// terminals shows three terminals that run a script, beside each other.
func terminals(b *testing.B, d *desktop.Desktop, script string) {
	b.Helper()
	for _, at := range []string{"+20+40", "+720+40", "+20+460"} {
		app, err := d.Launch(b.Context(), desktop.Launch{App: "xterm", Args: []string{"-geometry", "110x28" + at, "-e", "sh", "-c", script}, Wait: true})
		if err != nil || app.Window == 0 {
			b.Fatalf("%+v, %v", app, err)
		}
	}
}

const (
	quiet = `read x`
	busy  = `while :; do date +"%N the quick brown fox jumps over the lazy dog"; sleep 0.01; done`
)

func BenchmarkStart(b *testing.B) {
	testx11.Require(b, "Xvfb", "openbox", "dbus-daemon")
	for b.Loop() {
		d, err := desktop.Start(b.Context(), desktop.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkClose(b *testing.B) {
	testx11.Require(b, "Xvfb", "openbox", "dbus-daemon", "xterm")
	for b.Loop() {
		b.StopTimer()
		d, err := desktop.Start(b.Context(), desktop.Config{})
		if err != nil {
			b.Fatal(err)
		}
		terminals(b, d, quiet)
		b.StartTimer()
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	d := startBench(b)
	terminals(b, d, quiet)
	ctx := b.Context()
	n := 0
	// Each click is at another place: two at one place are kept apart by half a second.
	next := func(p desktop.Point) desktop.Point {
		n++
		return desktop.Point{X: p.X + n%5*20, Y: p.Y}
	}
	window, bare := desktop.Point{X: 200, Y: 200}, desktop.Point{X: 1300, Y: 880}
	click := func(p desktop.Point, modifiers ...string) error {
		at := next(p)
		_, err := d.Click(ctx, desktop.Click{At: &at, Modifiers: modifiers})
		return err
	}
	for _, bench := range []struct {
		name string
		call func() error
	}{
		{"move", func() error {
			_, err := d.Move(ctx, desktop.Move{At: next(bare)})
			return err
		}},
		{"position", func() error { _, err := d.Pointer(ctx); return err }},
		{"click", func() error { return click(bare) }},
		{"move over window", func() error {
			_, err := d.Move(ctx, desktop.Move{At: next(window)})
			return err
		}},
		{"position over window", func() error { _, err := d.Pointer(ctx); return err }},
		{"click on window", func() error { return click(window) }},
		{"click with modifiers", func() error { return click(bare, "ctrl", "shift") }},
		{"windows", func() error { _, err := d.Windows(ctx, desktop.WindowFilter{}); return err }},
		{"focused", func() error { _, err := d.FocusedWindow(ctx); return err }},
		{"status", func() error { _ = d.Status(); return nil }},
		{"press", func() error { return d.Press(ctx, desktop.Press{Keys: "a"}) }},
		{"press chord", func() error { return d.Press(ctx, desktop.Press{Keys: "ctrl+a"}) }},
		{"click and press", func() error { return errors.Join(click(bare), d.Press(ctx, desktop.Press{Keys: "a"})) }},
		{"clipboard", func() error { return d.SetClipboard(ctx, desktop.Content{Data: []byte("x")}) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkScreenshot(b *testing.B) {
	for _, content := range []struct {
		name, script string
		pause        time.Duration // untimed, for the terminals to draw
	}{{"changed", busy, 20 * time.Millisecond}, {"unchanged", quiet, 0}} {
		b.Run(content.name, func(b *testing.B) {
			d := startBench(b)
			terminals(b, d, content.script)
			for _, bench := range []struct {
				name string
				shot desktop.ScreenshotOptions
			}{
				{"png", desktop.ScreenshotOptions{}},
				{"jpeg", desktop.ScreenshotOptions{Format: desktop.JPEG}},
				{"webp", desktop.ScreenshotOptions{Format: desktop.WebP}},
				{"half", desktop.ScreenshotOptions{Scale: 0.5}},
				{"crosshair", desktop.ScreenshotOptions{Cursor: desktop.CursorCrosshair}},
				{"pointer", desktop.ScreenshotOptions{Cursor: desktop.CursorPointer}},
				{"region", desktop.ScreenshotOptions{Region: &desktop.Rect{X: 50, Y: 50, Width: 400, Height: 300}}},
			} {
				b.Run(bench.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if content.pause > 0 {
							b.StopTimer()
							<-time.After(content.pause)
							b.StartTimer()
						}
						if _, err := d.Screenshot(b.Context(), bench.shot); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
