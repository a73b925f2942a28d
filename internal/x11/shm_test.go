package x11_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// segments lists the sizes of the shared memory segments that this process
// made, and how many of them outlive it.
func segments(t *testing.T) (sizes []string, permanent int) {
	t.Helper()
	b, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // key shmid perms size cpid ...
		if len(f) > 4 && f[4] == strconv.Itoa(os.Getpid()) {
			sizes = append(sizes, f[3])
			if perms, _ := strconv.ParseUint(f[2], 8, 32); perms&0o1000 == 0 { // SHM_DEST
				permanent++
			}
		}
	}
	return sizes, permanent
}

// TestCaptureSegments is not parallel, because it checks all segments of this process.
func TestCaptureSegments(t *testing.T) {
	s := testx11.Start(t, 640, 480)
	c := s.Dial(t)
	check := func(when string, want ...string) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		deadline := time.Now().Add(patience)
		for range tick.C { // the server detaches in its own time
			sizes, permanent := segments(t)
			if permanent > 0 {
				t.Fatalf("%s: %d segments outlive this process", when, permanent)
			}
			if strings.Join(sizes, " ") == strings.Join(want, " ") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: segments %v, want %v", when, sizes, want)
			}
		}
	}
	check("at first")
	cp, err := c.NewCapture()
	if err != nil {
		t.Fatal(err)
	}
	check("before the first frame")
	for range 3 {
		frame(t, cp).Release()
		check("after a frame", "1228800")
	}
	if err := c.SetSize(100, 100); err != nil {
		t.Fatal(err)
	}
	frame(t, cp).Release()
	check("after a resize", "40000")
	if err := cp.Close(); err != nil {
		t.Fatal(err)
	}
	check("after Capture.Close")
	if cp, err = c.NewCapture(); err != nil {
		t.Fatal(err)
	}
	frame(t, cp).Release()
	check("after another capture", "40000")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	check("after Conn.Close")
}
