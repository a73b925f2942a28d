//go:build !race

// The race detector makes encoding twenty times slower, and its memory hides the growth of
// this program's.

package desktop_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// soak is how many times longer than usual the long tests run: DESKHAND_SOAK,
// which make soak sets to 10.
func soak() int {
	n, err := strconv.Atoi(os.Getenv("DESKHAND_SOAK"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// usage holds the resources of this process that must not grow.
type usage struct {
	goroutines, files, segments int
	anonymous                   int // KiB
}

func measure(t *testing.T) usage {
	t.Helper()
	runtime.GC()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	u := usage{goroutines: runtime.NumGoroutine(), files: len(fds)}
	segments, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	self := strconv.Itoa(os.Getpid())
	for line := range strings.Lines(string(segments)) {
		// cpid, the creator, is the fifth column (proc(5)).
		if f := strings.Fields(line); len(f) > 5 && f[4] == self {
			u.segments++
		}
	}
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rollup)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Anonymous:" {
			u.anonymous, _ = strconv.Atoi(f[1])
		}
	}
	return u
}

// wantFlat compares two measurements. Memory may wander: the race detector and
// the garbage collector keep some.
func wantFlat(t *testing.T, what string, before, after usage) {
	t.Helper()
	t.Logf("%s: before %+v, after %+v", what, before, after)
	if after.goroutines > before.goroutines || after.files > before.files || after.segments > before.segments {
		t.Errorf("%s: something grew: before %+v, after %+v", what, before, after)
	}
	if after.anonymous > before.anonymous+(64<<10) {
		t.Errorf("%s: anonymous memory grew from %d KiB to %d KiB", what, before.anonymous, after.anonymous)
	}
}

func TestStartsLeaveNothing(t *testing.T) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	cycle := func(n int) {
		for range n {
			d, err := desktop.Start(t.Context(), desktop.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cycle(3)
	before := measure(t)
	cycle(10 * soak())
	wantFlat(t, "starts", before, measure(t))
}

// TestScreenshotsLeaveNothing is not parallel, because it measures the whole process.
func TestScreenshotsLeaveNothing(t *testing.T) {
	d := start(t, desktop.Config{})
	testx11.Require(t, "xterm", "xrestop")
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-e", "while :; do date +%N; sleep 0.02; done"}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	take := func(n int) {
		for i := range n {
			shot := desktop.ScreenshotOptions{Cursor: []desktop.CursorStyle{desktop.CursorNone, desktop.CursorPointer}[i%2]}
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

// xResources returns the number of resources that all clients have in the X server.
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
