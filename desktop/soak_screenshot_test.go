//go:build !race

// The race detector makes encoding twenty times slower, and its own memory
// hides ours.

package desktop_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// Not parallel: it counts what the whole process holds.
func TestScreenshotsLeaveNothing(t *testing.T) {
	d := start(t, desktop.Config{})
	testx11.Require(t, "xterm", "xrestop")
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-e", "while :; do date +%N; sleep 0.02; done"}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	take := func(n int) {
		for i := range n {
			shot := desktop.Shot{Cursor: []desktop.CursorStyle{desktop.CursorNone, desktop.CursorPointer}[i%2]}
			switch i % 10 {
			case 1:
				shot.Format = desktop.JPEG
			case 2:
				shot.Scale = 0.5
			case 3:
				shot.Region = &desktop.Rect{X: i % 300, Y: 10, Width: 200, Height: 100}
			}
			if _, err := d.Screenshot(t.Context(), shot); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: i % 500, Y: i % 400}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	take(200)
	before, resources := measure(t), xResources(t, d)
	take(1000 * soak())
	wantFlat(t, "screenshots", before, measure(t))
	if after := xResources(t, d); after > resources {
		t.Errorf("X resources grew from %d to %d", resources, after)
	}
}

// xResources counts what all clients hold in the X server.
func xResources(t *testing.T, d *desktop.Desktop) int {
	t.Helper()
	out := filepath.Join(t.TempDir(), "xrestop")
	app, err := d.Launch(t.Context(), desktop.Launch{App: "sh", Args: []string{"-c", `xrestop -b -m 1 > "$0"`, out}, Wait: true})
	if err != nil || app.ExitCode != 0 {
		t.Fatalf("xrestop: %+v, %v", app, err)
	}
	sum := 0
	for line := range strings.Lines(readFile(t, out)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || strings.Contains(name, "bytes") || strings.Contains(name, "PID") {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err == nil {
			sum += n
		}
	}
	if sum == 0 {
		t.Fatal("xrestop counted nothing")
	}
	return sum
}
