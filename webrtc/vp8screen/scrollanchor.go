package vp8screen

import "encoding/binary"

const (
	// A mark is a patch of this size, of which four rows are hashed.
	anchorWidth = 32
	anchorRows  = 10

	// anchorTable is the size of the table of marks, which is filled by half at most.
	// anchorShifts is the size of the table of distances.
	anchorTable  = 1 << 13
	anchorShifts = 1 << 11

	// Every fourth row of the previous frame is searched, and four consecutive rows of every
	// sixteen in the current frame. For any distance, a quarter of these rows correspond to
	// searched rows of the previous frame. The choice of the four rows differs between
	// macroblocks, because lines of text are periodic too.
	anchorStep = 4

	// One of 16 patches of a small area is a mark. Large areas have fewer.
	smallArea, smallBits = 1 << 18, 4
	// minAnchors is how many marks must agree on a distance.
	minAnchors = 6
	maxAnchors = 3
)

// anchorSearch finds motion in any direction. A patch whose first eight pixels have a hash
// with leading zeros is a mark, wherever it moves. A mark that occurs once in both frames
// votes for the distance between the two.
type anchorSearch struct {
	marks  []anchorEntry
	count  int
	round  uint32
	shifts []shiftEntry
	voted  int
}

type anchorEntry struct {
	key   uint64
	round uint32 // an entry of another round is empty
	at    int32  // in the plane of luma; -1: several
}

type shiftEntry struct {
	shift
	round uint32
	votes int32
}

// find appends the distances with the most votes.
func (s *anchorSearch) find(shifts []shift, prev, cur *Frame, f *ScrollFinder) []shift {
	if s.marks == nil {
		s.marks, s.shifts = make([]anchorEntry, anchorTable), make([]shiftEntry, anchorShifts)
	}
	s.round++
	s.count, s.voted = 0, 0
	area := 0
	for _, l := range f.live {
		if l {
			area += mbSize * mbSize
		}
	}
	bits := uint(smallBits)
	for area > smallArea {
		area, bits = area/2, bits+1
	}
	s.scan(prev, f, bits, false, s.insert)
	s.scan(cur, f, bits, true, s.vote)
	for range maxAnchors {
		var best *shiftEntry
		for i := range s.shifts {
			if e := &s.shifts[i]; e.round == s.round && e.votes >= minAnchors && (best == nil || e.votes > best.votes) {
				best = e
			}
		}
		if best == nil {
			break
		}
		shifts = append(shifts, best.shift)
		best.votes = 0
	}
	return shifts
}

// scan calls mark with the marks in the searched macroblocks. If now is true, it skips explained
// macroblocks.
func (s *anchorSearch) scan(p *Frame, f *ScrollFinder, bits uint, now bool, mark func(key uint64, at, stride int)) {
	for row := range f.rows {
		first, end, step := 0, mbSize, anchorStep
		if now {
			first, step = row*5%(mbSize-anchorStep+1), 1
			end = first + anchorStep
		}
		for c0 := 0; c0 < f.cols; c0++ {
			c1 := c0
			for c1 < f.cols && f.live[row*f.cols+c1] && !(now && f.label[row*f.cols+c1] != 0) {
				c1++
			}
			if c1 == c0 {
				continue
			}
			x0, x1 := c0*mbSize, min(c1*mbSize, p.Width-anchorWidth+1)
			for y := first; y < end && row*mbSize+y <= p.Height-anchorRows && x0 < x1; y += step {
				s.scanRow(p, x0, x1, row*mbSize+y, bits, mark)
			}
			c0 = c1
		}
	}
}

func (s *anchorSearch) scanRow(p *Frame, x0, x1, y int, bits uint, mark func(key uint64, at, stride int)) {
	line := p.Y[y*p.YStride+x0:][: x1-x0+7 : x1-x0+7]
	limit := uint64(1) << (64 - bits)
	for x := 0; x+8 <= len(line); x++ {
		w := binary.LittleEndian.Uint64(line[x : x+8])
		if w*hashFactor >= limit || w == rotate8(w) {
			continue
		}
		at := y*p.YStride + x0 + x
		mark(patchHash(p.Y[at:], p.YStride), at, p.YStride)
	}
}

func patchHash(p []byte, stride int) uint64 {
	h := hashRow(p[:anchorWidth])
	for _, y := range [3]int{2, 5, anchorRows - 1} {
		h = h*hashFactor + hashRow(p[y*stride:][:anchorWidth])
	}
	return h
}

func (s *anchorSearch) entry(key uint64) *anchorEntry {
	for i := key * hashFactor >> 51; ; i = (i + 1) % anchorTable {
		if e := &s.marks[i]; e.round != s.round || e.key == key {
			return e
		}
	}
}

// insert adds a mark of the previous frame.
func (s *anchorSearch) insert(key uint64, at, _ int) {
	e := s.entry(key)
	switch {
	case e.round == s.round:
		e.at = -1
	case s.count < anchorTable/2:
		*e = anchorEntry{key: key, round: s.round, at: int32(at)}
		s.count++
	}
}

func (s *anchorSearch) vote(key uint64, at, stride int) {
	e := s.entry(key)
	if e.round != s.round || e.at < 0 || int(e.at) == at {
		return
	}
	old := int(e.at)
	d := shift{at%stride - old%stride, at/stride - old/stride}
	hash := uint64(uint32(d.dx))<<32 | uint64(uint32(d.dy))
	for i := hash * hashFactor >> 53; ; i = (i + 1) % anchorShifts {
		v := &s.shifts[i]
		if v.round != s.round {
			if s.voted == anchorShifts/2 {
				return
			}
			s.voted++
			*v = shiftEntry{shift: d, round: s.round}
		}
		if v.shift == d {
			v.votes++
			return
		}
	}
}
