package desktop_test

import (
	"os"
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

// usage is what must not grow.
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
			if _, err := d.Screenshot(t.Context(), desktop.Shot{}); err != nil {
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
