//go:build !race

package vp8screen

// Encoding many frames under the race detector takes minutes.

import (
	"testing"
	"time"
)

// TestKeepsToTheRate checks the bit rate of a video that needs more bits than the rate allows.
func TestKeepsToTheRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{500_000, 2_000_000} {
		e, err := New(Config{Width: 640, Height: 480, Bitrate: 8_000_000})
		if err != nil {
			t.Fatal(err)
		}
		e.SetBitrate(rate)
		dirty, f := NewDirty(640, 480), NewFrame(640, 480)
		now := time.Unix(9, 0)
		bits, most := 0, time.Duration(0)
		n := 0
		for c, damage := range corpus[6].play(t, 640, 480, 90) {
			dirty.Clear()
			for _, r := range damage {
				f.SetBGRX(c.pix, c.stride, r, dirty)
			}
			got, err := e.Encode(nil, f, EncodeOptions{Dirty: dirty, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > 30 {
				bits += 8 * len(got.Data)
				most = max(most, e.Backlog())
			}
			now = now.Add(time.Second / 30)
		}
		if got := bits / 2; got > rate*11/10 {
			t.Errorf("%d bit/s at a rate of %d", got, rate)
		}
		if most > 400*time.Millisecond {
			t.Errorf("up to %v were waiting", most)
		}
		t.Logf("rate %d: %d bit/s, backlog up to %v", rate, bits/2, most)
	}
}
