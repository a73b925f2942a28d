package vp8screen

import "time"

// A decoder keeps two more frames than the last one, golden and altref (RFC
// 6386, 9.7). They hold what was shown before something changed, since it often
// comes back: golden for changes like a menu that opens and closes, altref for
// those of a whole window.
const (
	refLast = iota
	refGolden
	refAlt
	refs
)

const (
	// mediumPart and largePart are the parts of a frame whose change is kept
	// from.
	mediumPart, largePart = 50, 4
	// restBefore is how long a picture must have been there to be kept.
	restBefore = 300 * time.Millisecond
)

// A store are the frames that a decoder has, of which some may be the same.
type store struct {
	frames  [refs]*Frame  // never written to; the last one is also Encoder.ref
	spare   []*Frame      // all frames there are
	keep    [refs]bool    // which ones the frame will replace by what was the last one
	changed time.Duration // when there was a change worth keeping from
}

// plan decides what to keep when so many of all macroblocks get new content.
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

// advance makes written the last frame, and returns one to write the next to,
// and whether that is the former last one.
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
	for _, r := range s.frames {
		if r == f {
			return true
		}
	}
	return false
}

// tryStored looks whether the macroblock is as it was in a stored frame, and
// returns which one and its distance if that is less than cost.
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

// predictStored writes the prediction of the macroblock by its place in a stored
// frame.
func (w *worker) predictStored(ref uint8) {
	e := w.e
	e.copyFrom(e.store.frames[ref], w.x, w.y)
}
