package vp8screen

import (
	"image"
)

// A ScrollFinder finds regions that moved from one frame to the next, such as scrolled pages
// and dragged windows, each by its own distance in whole pixels. The zero value is ready to
// use, for frames of any size, by one goroutine at a time.
//
// It examines luma where the picture changed. Two searches propose distances. The first one
// hashes narrow strips of rows and finds vertical motion, which is the most common. The
// second one finds patches that moved in any direction, if the first one left enough
// unexplained. Distances of the last frame are tried before both. Every changed macroblock
// is then compared with the pixels that should have moved there. Regions consist only of
// macroblocks that are equal.
//
// Where the picture often changed without motion, as video does, the searches run less often.
type ScrollFinder struct {
	cols, rows int
	fails      []uint8 // per macroblock, how often it changed without an explanation
	live       []bool  // per macroblock, whether it is searched
	label      []uint8 // per macroblock, 1 + the index of the shift that explains it
	calls      uint

	shifts  [maxShifts]shift
	again   int // how many of shifts are tried first in the next call
	strips  stripSearch
	anchors anchorSearch
	regions regionMaker
}

// shift is a distance in pixels.
type shift struct{ dx, dy int }

const (
	// maxAgain is how many shifts of the previous frame are tried first.
	maxAgain  = 3
	maxShifts = maxAgain + maxVertical + maxAnchors

	// minLive is how many macroblocks must have changed for the first search.
	minLive = 8
	// minLost is how many must be unexplained for the second search.
	minLost = 40
	// minMatch is how many macroblocks a shift must explain.
	minMatch = 6

	// After hopeless unexplained changes, a macroblock is searched at every retryEvery-th
	// call.
	hopeless   = 12
	retryEvery = 16
)

// Find returns the regions of cur that have moved since prev, the previous frame. dirty marks
// the macroblocks that differ. Both frames and the map must have the same size.
//
// Most of the changed macroblocks in a region are equal to what moved there. A region extends
// half a macroblock beyond them on each side. Regions may overlap. The result is valid until
// the next call. Find does not allocate while the size stays the same.
func (s *ScrollFinder) Find(prev, cur *Frame, dirty *Dirty) []Motion {
	if s.cols != dirty.Cols || s.rows != dirty.Rows {
		s.resize(dirty.Cols, dirty.Rows)
	}
	s.calls++
	live := s.choose(dirty)
	if live < minLive {
		return nil
	}
	shifts := s.search(prev, cur, dirty, live)
	for i, l := range s.label {
		switch {
		case l != 0:
			s.fails[i] = 0
		case dirty.Blocks[i] != 0 && s.fails[i] < hopeless:
			s.fails[i]++
		}
	}
	s.again = copy(s.shifts[:maxAgain], shifts)
	if len(shifts) == 0 {
		return nil
	}
	return s.regions.make(shifts, s.label, dirty, cur)
}

// search returns the shifts that explain macroblocks, and labels those.
func (s *ScrollFinder) search(prev, cur *Frame, dirty *Dirty, live int) []shift {
	clear(s.label)
	// Motion often continues by the same distance.
	shifts, matched := s.match(s.shifts[:s.again], 0, prev, cur, dirty)
	if lost := live - matched; lost >= minLive && lost >= live/8 {
		first := len(shifts)
		shifts = s.strips.find(shifts, prev, cur, s)
		shifts, matched = s.match(shifts, first, prev, cur, dirty)
	}
	if lost := live - matched; lost >= minLost && lost >= live/8 {
		first := len(shifts)
		shifts = s.anchors.find(shifts, prev, cur, s)
		shifts, _ = s.match(shifts, first, prev, cur, dirty)
	}
	return shifts
}

func (s *ScrollFinder) resize(cols, rows int) {
	n := cols * rows
	*s = ScrollFinder{cols: cols, rows: rows, fails: make([]uint8, n), live: make([]bool, n), label: make([]uint8, n)}
	s.strips.resize(rows * mbSize)
	s.regions.resize(n)
}

// choose decides which macroblocks are searched, and returns how many.
func (s *ScrollFinder) choose(dirty *Dirty) int {
	retry := s.calls%retryEvery == 0
	n := 0
	for i, d := range dirty.Blocks[:len(s.live)] {
		if d == 0 {
			s.live[i], s.fails[i] = false, 0
			continue
		}
		s.live[i] = retry || s.fails[i] < hopeless
		if s.live[i] {
			n++
		}
	}
	return n
}

// match labels the changed macroblocks that shifts from first on explain. It removes shifts
// that explain too few. It returns the shifts and how many of the searched macroblocks have a
// label.
func (s *ScrollFinder) match(shifts []shift, first int, prev, cur *Frame, dirty *Dirty) (kept []shift, matched int) {
	kept = shifts[:first]
	for _, d := range shifts[first:] {
		label := uint8(len(kept) + 1)
		// Flat macroblocks prove nothing.
		if n := s.matchShift(d, label, prev, cur, dirty); n >= minMatch {
			kept = append(kept, d)
			continue
		}
		for i, l := range s.label {
			if l == label {
				s.label[i] = 0
			}
		}
	}
	for i, l := range s.label {
		if l != 0 && s.live[i] {
			matched++
		}
	}
	return kept, matched
}

// matchShift labels the macroblocks that a shift explains. It returns how many of them are not
// flat.
func (s *ScrollFinder) matchShift(d shift, label uint8, prev, cur *Frame, dirty *Dirty) int {
	// The source must lie in the planes.
	c0, c1 := macroblocks(max(0, d.dx)), s.cols-macroblocks(max(0, -d.dx))
	r0, r1 := macroblocks(max(0, d.dy)), s.rows-macroblocks(max(0, -d.dy))
	n := 0
	for row := r0; row < r1; row++ {
		for col := c0; col < c1; col++ {
			i := row*s.cols + col
			if dirty.Blocks[i] == 0 || s.label[i] != 0 {
				continue
			}
			at := row*mbSize*cur.YStride + col*mbSize
			equal, flat := equalBlock(cur.Y[at:], prev.Y[at-d.dy*prev.YStride-d.dx:], cur.YStride)
			if !equal {
				continue
			}
			s.label[i] = label
			if !flat {
				n++
			}
		}
	}
	return n
}

// equalBlock compares the luma of two macroblocks. flat reports whether it has one value.
func equalBlock(a, b []byte, stride int) (equal, flat bool) {
	first := word(a, 0)
	different := first ^ rotate8(first)
	for y := range mbSize {
		p, q := a[y*stride:][:mbSize], b[y*stride:][:mbSize]
		l, r := word(p, 0), word(p, 8)
		if l != word(q, 0) || r != word(q, 8) {
			return false, false
		}
		different |= l ^ first | r ^ first
	}
	return true, different == 0
}

// A Motion is a region that moved as a whole, by scrolling for example.
type Motion struct {
	// Rect is where the region is now, in luma pixels.
	Rect image.Rectangle
	// DX and DY are how far it moved: the pixel at p was at p - (DX, DY) in the previous
	// frame.
	DX, DY int
}
