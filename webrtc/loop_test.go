package webrtc

import (
	"testing"
	"time"
)

// paced simulates a loop that captures drawings at a frame rate. A drawing that comes too early
// is captured together with later ones when the pace allows it. paced returns how long the
// first drawing of each frame waited.
func paced(rate int, drawn []time.Duration) (waits []time.Duration) {
	l := &loop{s: &Streamer{cfg: Config{FrameRate: rate}}}
	l.s.adapt()
	begin := time.Now()
	for i := 0; i < len(drawn); {
		at := begin.Add(drawn[i])
		captured := at
		if captured.Before(l.paced) {
			captured = l.paced
		}
		waits = append(waits, captured.Sub(at))
		l.pace(captured)
		for i < len(drawn) && !begin.Add(drawn[i]).After(captured) {
			i++
		}
	}
	return waits
}

// evenly returns the times of n drawings at a rate.
func evenly(rate, n int) (at []time.Duration) {
	for i := range n {
		at = append(at, time.Duration(i)*time.Second/time.Duration(rate))
	}
	return at
}

// TestPaceKeepsStep draws at the frame rate. After a late drawing, the drawings that follow do
// not wait for long.
func TestPaceKeepsStep(t *testing.T) {
	t.Parallel()
	for _, ms := range []int{0, 3, 10, 20, 33, 50, 300} {
		late := time.Duration(ms) * time.Millisecond
		drawn := evenly(30, 300)
		drawn[100] += late
		for i := 101; drawn[i] < drawn[100]; i++ {
			drawn[i] = drawn[100]
		}
		waits := paced(30, drawn)
		for i, w := range waits {
			if w > 0 && (i < 100 || i > 130) {
				t.Errorf("late by %v: frame %d of %d waited %v", late, i, len(waits), w)
			}
		}
		if missing := len(drawn) - len(waits) - ms/33; missing > 1 {
			t.Errorf("late by %v: %d of %d drawings were captured", late, len(waits), len(drawn))
		}
	}
}

// TestPaceBounds draws much more often than the frame rate.
func TestPaceBounds(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{1, 10, 30, 60} {
		const seconds = 20
		n := len(paced(rate, evenly(500, 500*seconds)))
		if least, most := seconds*rate, seconds*rate*16/15+2; n < least || n > most {
			t.Errorf("%d frames at %d a second in %d seconds, want from %d to %d", n, rate, seconds, least, most)
		}
	}
}
