package vp8screen

import (
	"slices"
	"time"
)

// A decoder keeps two frames in addition to the last one, golden and altref (RFC 6386, 9.7).
// They hold the screen before a change, because it often comes back: golden for small changes
// such as a menu that opens and closes, altref for large ones such as a window.
const (
	refLast = iota
	refGolden
	refAlt
	refs
)

const (
	// A change of 1/mediumPart of the frame is a small one, of 1/largePart a large one.
	mediumPart, largePart = 50, 4
	// restBefore is how long the screen must have been unchanged to be stored.
	restBefore = 300 * time.Millisecond
)

// A store has the frames of a decoder. Some may be the same.
type store struct {
	frames  [refs]*Frame  // never written to; the last one is also Encoder.ref
	spare   []*Frame      // all frames
	keep    [refs]bool    // which ones the next frame replaces by the last one
	changed time.Duration // the last small or large change
}

// plan decides which frames to store before a frame with a number of new macroblocks.
func (s *store) plan(fresh, all int, now time.Duration) {
	s.keep = [refs]bool{}
	if fresh*mediumPart < all {
		return
	}
	if now-s.changed >= restBefore {
		large := fresh*largePart >= all
		s.keep[refGolden], s.keep[refAlt] = !large, large
	}
	s.changed = now
}

// advance makes written the last frame. It returns the frame to write next, and whether that
// was the last frame before.
func (s *store) advance(written *Frame, key bool) (next *Frame, former bool) {
	last := s.frames[refLast]
	for i := range s.frames {
		switch {
		case key || i == refLast:
			s.frames[i] = written
		case s.keep[i]:
			s.frames[i] = last
		}
	}
	if !s.used(last) {
		return last, true
	}
	for _, f := range s.spare {
		if !s.used(f) {
			return f, false
		}
	}
	f := NewFrame(written.Width, written.Height)
	s.spare = append(s.spare, f)
	return f, false
}

func (s *store) used(f *Frame) bool {
	return slices.Contains(s.frames[:], f)
}

// tryStored returns the stored frame with the least distance from the macroblock and that
// distance, if it is less than cost.
func (w *worker) tryStored(cost int) (ref uint8, least int) {
	s := &w.e.store
	for i := refGolden; i < refs; i++ {
		f := s.frames[i]
		if f == s.frames[refLast] || i == refAlt && f == s.frames[refGolden] {
			continue
		}
		d := planeDistance(w.src.Y[w.luma:], w.src.YStride, f.Y[w.luma:], f.YStride, 16) + w.q.bitPrice()*6>>8
		if d < cost {
			ref, cost = uint8(i), d
		}
	}
	return ref, cost
}
