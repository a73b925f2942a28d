package accessibility_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// benchSize is the screen of measurements.
var benchSize = desktop.Size{Width: 1440, Height: 900}

// BenchmarkOutline measures the outline of windows with about 500 elements.
func BenchmarkOutline(b *testing.B) {
	dir := b.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // of the test
			b.Fatal(err)
		}
		return path
	}
	var buttons strings.Builder
	for i := range 500 {
		fmt.Fprintf(&buttons, "<button>Button %d</button> ", i)
	}
	page := "file://" + write("page.html", "<!doctype html><title>Buttons</title><style>button{font-size:9px;padding:0}</style>"+buttons.String())
	var files string
	for i := range 40 {
		files = write(fmt.Sprintf("file%02d.txt", i), "")
	}
	const columns, rows = 20, 24
	list := []string{"--list", "--width=1400", "--height=850", "--text=Cells"}
	for i := range columns {
		list = append(list, fmt.Sprintf("--column=C%d", i))
	}
	for i := range columns * rows {
		list = append(list, fmt.Sprintf("cell %d", i))
	}
	for _, c := range []struct {
		name, app string
		args      []string
		open      func(*testing.B, *desktop.Desktop, *accessibility.Tree) // nil: the window is there
		last      accessibility.Match                                     // that the window shows when it is complete
	}{
		{"GTK", "zenity", list, nil, accessibility.Match{Role: "table cell", Name: fmt.Sprintf("cell %d", columns*rows-1)}},
		{"Qt", "featherpad", []string{files}, openFiles, accessibility.Match{Role: "table cell", Name: "file39.txt"}},
		{"Chromium", "chromium", []string{"--no-first-run", "--no-sandbox", "--password-store=basic", accessibility.BrowserArg, page}, nil, accessibility.Match{Role: "button", Name: "Button 499"}},
		{"Firefox", "firefox", []string{"--new-instance", "--profile", b.TempDir(), page}, nil, accessibility.Match{Role: "button", Name: "Button 499"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			application(b, c.app)
			d, tree := start(b, desktop.Config{Size: benchSize, Env: accessibility.Environ()})
			launch(b, d, c.app, c.args...)
			if c.open != nil {
				c.open(b, d, tree)
			}
			awaited(b, tree, c.last)
			var all []time.Duration
			var s accessibility.Snapshot
			for b.Loop() {
				begun := time.Now()
				var err error
				if s, err = tree.Snapshot(b.Context(), accessibility.Query{Limit: 1000, Timeout: patient}); err != nil {
					b.Fatal(err)
				}
				all = append(all, time.Since(begun))
			}
			if s.Truncated {
				b.Errorf("truncated, skipped %+v", s.Skipped)
			}
			reportMedian(b, all)
			b.ReportMetric(float64(len(s.Elements)), "elements")
		})
	}
}

// openFiles shows the files of a folder on the whole screen.
func openFiles(b *testing.B, d *desktop.Desktop, tree *accessibility.Tree) {
	b.Helper()
	if err := d.Press(b.Context(), desktop.Press{Keys: "ctrl+o"}); err != nil {
		b.Fatal(err)
	}
	var dialog desktop.WindowID
	until(b, tree, accessibility.Query{Timeout: patient}, func(s accessibility.Snapshot) bool {
		e := one(s, "dialog", "Open file...")
		if e != nil && e.Window != one(s, "tool bar", "").Window { // the window manager has it
			dialog = e.Window
		}
		return dialog != 0
	})
	if _, err := d.ResizeWindow(b.Context(), dialog, desktop.Size{Width: 1400, Height: 850}); err != nil {
		b.Fatal(err)
	}
	if _, err := d.MoveWindow(b.Context(), dialog, desktop.Point{X: 10, Y: 20}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClick measures clicks on two entries in turns, by coordinates and by reference.
func BenchmarkClick(b *testing.B) {
	d, tree := start(b, desktop.Config{})
	launch(b, d, "zenity", "--forms", "--add-entry=First", "--add-entry=Second")
	var entries []accessibility.Element
	until(b, tree, accessibility.Query{Match: accessibility.Match{Role: "text"}, Timeout: patient}, func(s accessibility.Snapshot) bool {
		entries = s.Elements
		return len(entries) == 2
	})
	measure := func(name string, click func(e accessibility.Element) error) {
		b.Run(name, func(b *testing.B) {
			var all []time.Duration
			for i := 0; b.Loop(); i++ {
				begun := time.Now()
				if err := click(entries[i%2]); err != nil {
					b.Fatal(err)
				}
				all = append(all, time.Since(begun))
			}
			reportMedian(b, all)
		})
	}
	measure("coordinates", func(e accessibility.Element) error {
		_, err := d.Click(b.Context(), desktop.Click{At: &desktop.Point{X: e.Box.X + e.Box.Width/2, Y: e.Box.Y + e.Box.Height/2}})
		return err
	})
	measure("reference", func(e accessibility.Element) error {
		_, err := tree.Do(b.Context(), accessibility.Action{Ref: e.Ref, Do: accessibility.Click})
		return err
	})
}

func reportMedian(b *testing.B, all []time.Duration) {
	b.Helper()
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-median")
}
