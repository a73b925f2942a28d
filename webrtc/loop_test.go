package webrtc

import (
	"testing"
	"time"
)

// paced runs the pace of a loop over drawings, of which one that comes too early
// is captured when the pace allows it, together with what was drawn until then.
// It returns how long each captured one waited.
func paced(rate int, drawn []time.Duration) (waits []time.Duration) {
	l := &loop{s: &Streamer{cfg: Config{FrameRate: rate}}}
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

// evenly is when a program draws that does so that often.
func evenly(rate, n int) (at []time.Duration) {
	for i := range n {
		at = append(at, time.Duration(i)*time.Second/time.Duration(rate))
	}
	return at
}

// TestPaceKeepsStep has a program draw as often as frames may come. However late
// a drawing was, those after it do not wait for long.
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

// TestPaceBounds has a program draw all the time.
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
