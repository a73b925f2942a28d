package webrtc

import (
	"testing"
	"time"
)

// TestSpread bounds the number of packets in the longest time between two reads of a browser,
// and the time of a picture.
func TestSpread(t *testing.T) {
	t.Parallel()
	const (
		packets = 1000
		room    = 50                   // in a browser's buffer
		away    = 3 * time.Millisecond // between two reads of the browser
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
