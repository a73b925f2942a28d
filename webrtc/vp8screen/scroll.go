package vp8screen

// A ScrollFinder finds what moved as a whole from one frame to the next:
// regions that scrolled and windows that were dragged, by whole pixels, each
// region by its own distance. The zero value is ready to use, for frames of any
// size, by one goroutine at a time.
//
// It looks at luma, and only where the picture changed. Two searches propose
// distances. The first one hashes narrow strips of rows and finds what moved
// straight up or down, which is nearly all there is. The second one looks for
// marks in the picture that moved in any direction, when enough is left that
// the first one does not explain. Neither is made when the distances of the
// frame before explain the change, too. Every changed macroblock is compared
// with what should have moved there, pixel by pixel, and the ones that are
// equal make the regions: so a proposal may be wrong, but never a region.
//
// Where the picture changed many times without anything that moved, as video
// does, the searches look only now and then.
type ScrollFinder struct {
	cols, rows int
	fails      []uint8 // per macroblock, how often it changed without an explanation
	live       []bool  // per macroblock, whether the searches look at it
	label      []uint8 // per macroblock, 1 + the index of the shift that explains it
	calls      uint

	shifts  [maxShifts]shift
	again   int // how many of shifts are tried first in the next call
	strips  stripSearch
	anchors anchorSearch
	regions regionMaker
}

// shift is how far something moved, in pixels.
type shift struct{ dx, dy int }

const (
	// maxAgain is how many shifts of the frame before are tried first.
	maxAgain  = 3
	maxShifts = maxAgain + maxVertical + maxAnchors

	// minLive is how many macroblocks must have changed for a search.
	minLive = 8
	// minLost is how many must be left for the second one.
	minLost = 40
	// minMatch is how many macroblocks a shift must explain.
	minMatch = 6

	// After hopeless changes without an explanation a macroblock is only
	// searched at every retryEvery-th call.
	hopeless   = 12
	retryEvery = 16
)

// Find returns the regions of cur that were somewhere else in prev, the frame
// before. dirty marks the macroblocks that differ; both frames and the map must
// have the same size.
//
// Most of the changed macroblocks inside of a region are equal to what moved
// there, and on each side the region has half of a macroblock more, because what
// moved ends somewhere in the next one. Regions may overlap. The result is valid
// until the next call; nothing is allocated while the size stays the same.
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

// search returns the shifts that explain something, and labels what they do.
func (s *ScrollFinder) search(prev, cur *Frame, dirty *Dirty, live int) []shift {
	clear(s.label)
	// What moves goes on moving, often by as much.
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

// choose decides which macroblocks the searches look at and returns how many.
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

// match compares the changed macroblocks that have no label yet with what the
// shifts from first on move there, and labels those that are equal. Shifts that
// explain too few are removed. It returns the shifts and how many of the
// macroblocks that the searches look at have a label.
func (s *ScrollFinder) match(shifts []shift, first int, prev, cur *Frame, dirty *Dirty) (kept []shift, matched int) {
	kept = shifts[:first]
	for _, d := range shifts[first:] {
		label := uint8(len(kept) + 1)
		// What is flat proves nothing.
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

// matchShift labels what one shift explains and returns how many of these
// macroblocks are not flat.
func (s *ScrollFinder) matchShift(d shift, label uint8, prev, cur *Frame, dirty *Dirty) int {
	// What moved came from inside of the planes.
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

// equalBlock compares the luma of two macroblocks, and says whether all of it
// is one colour.
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
