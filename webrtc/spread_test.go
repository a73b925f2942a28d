package webrtc

import (
	"testing"
	"time"
)

// TestSpread bounds how many packets go out in any time that a browser may take
// to look, and how long a picture takes.
func TestSpread(t *testing.T) {
	t.Parallel()
	const (
		packets = 1000
		room    = 50                   // in a browser's buffer
		away    = 3 * time.Millisecond // that it does something else
	)
	for first := range packets {
		n := 0
		for i := first; i < packets && spread(i) <= spread(first)+away; i++ {
			n++
		}
		if n > room+groupSize {
			t.Fatalf("%d packets go out within %v of packet %d", n, away, first)
		}
	}
	if took := spread(2*groupSize - 1); took > 0 {
		t.Errorf("a small picture takes %v", took)
	}
	if took := spread(packets); took < 60*time.Millisecond || took > 120*time.Millisecond {
		t.Errorf("%d packets take %v, want about 100 Mbit/s", packets, took)
	}
}
