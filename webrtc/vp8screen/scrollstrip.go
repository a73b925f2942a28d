package vp8screen

import (
	"encoding/binary"
	"math/bits"
)

const (
	// stripWidth is how many pixels of a row are hashed together. A region must
	// be about twice as wide to have one of its own.
	stripWidth = 2 * mbSize
	// windowRows is how many rows make a window: enough that one of text is
	// hardly ever there twice, and few, because a change spoils all that see it.
	windowRows = 8

	// votesOnce is the weight of a window that was there exactly once before.
	// One that was there a few times has one vote for each.
	votesOnce = 4
	maxTwins  = 4
	// minVotes is what a distance must have: 16 rows that were there once.
	minVotes = 16 * votesOnce
	// maxVertical is how many distances are tried.
	maxVertical = 5

	// Of more columns than that, only every other strip is looked at.
	manyColumns = 48
)

// stripSearch finds by how much regions moved up or down. In strips of a few
// columns, windows of a few rows are looked up among those of the frame before;
// each that is found there votes for the distance. Rows alone would not do:
// empty lines and those of a common letter are everywhere.
type stripSearch struct {
	height    int
	prev, cur []uint64 // hashes of rows, later of windows
	prevSame  []uint8  // how many rows from here on are the same, up to windowRows
	curSame   []uint8
	next      []int32 // the row of the window before with the same hash, or -1
	table     []stripEntry
	shift     uint // from a hash to an index of table
	round     uint32
	votes     []int32 // by distance + height
	voted     []int32 // the indices of votes that are not zero
}

type stripEntry struct {
	key   uint64
	round uint32 // the entry is empty when it is not of this round
	last  int32
	count int32
}

func (s *stripSearch) resize(height int) {
	size := bits.Len(uint(2 * height))
	*s = stripSearch{
		height: height, prev: make([]uint64, height), cur: make([]uint64, height),
		prevSame: make([]uint8, height), curSame: make([]uint8, height), next: make([]int32, height),
		table: make([]stripEntry, 1<<size), shift: uint(64 - size),
		votes: make([]int32, 2*height+1), voted: make([]int32, 0, 2*height+1),
	}
}

// find appends the distances with the most votes.
func (s *stripSearch) find(shifts []shift, prev, cur *Frame, f *ScrollFinder) []shift {
	for _, v := range s.voted {
		s.votes[v] = 0
	}
	s.voted = s.voted[:0]
	step := 2
	if liveColumns(f) > manyColumns {
		step = 4
	}
	for col := 0; col < f.cols; col += step {
		top, bottom := liveRows(f, col)
		if y0, y1 := top*mbSize, min(bottom*mbSize, cur.Height); y1-y0 >= 2*windowRows {
			s.strip(prev, cur, col*mbSize, y0, y1)
		}
	}
	for range maxVertical {
		best := -1
		for _, v := range s.voted {
			if s.votes[v] >= minVotes && (best < 0 || s.votes[v] > s.votes[best]) {
				best = int(v)
			}
		}
		if best < 0 {
			break
		}
		shifts = append(shifts, shift{dy: best - s.height})
		s.votes[best] = 0
	}
	return shifts
}

// liveColumns returns how many columns of macroblocks there are from the first
// to the last one that is looked at.
func liveColumns(f *ScrollFinder) int {
	first, last := f.cols, -1
	for row := range f.rows {
		live := f.live[row*f.cols:][:f.cols]
		for c := 0; c < first; c++ {
			if live[c] {
				first = c
			}
		}
		for c := f.cols - 1; c > last; c-- {
			if live[c] {
				last = c
			}
		}
	}
	return last + 1 - first
}

// liveRows returns the rows of macroblocks from the first to the last one that
// is looked at, in the strip that begins at a column.
func liveRows(f *ScrollFinder, col int) (top, bottom int) {
	right := min(col+1, f.cols-1)
	for row := range f.rows {
		if f.live[row*f.cols+col] || f.live[row*f.cols+right] {
			if bottom == 0 {
				top = row
			}
			bottom = row + 1
		}
	}
	return top, bottom
}

// strip collects the votes of one strip, from row y0 up to y1.
func (s *stripSearch) strip(prev, cur *Frame, x, y0, y1 int) {
	width := min(stripWidth, cur.YStride-x)
	n := y1 - y0
	changed := 0
	for i := range n {
		at := (y0+i)*cur.YStride + x
		s.prev[i] = hashRow(prev.Y[at:][:width])
		s.cur[i] = hashRow(cur.Y[at:][:width])
		if s.prev[i] != s.cur[i] {
			changed++
		}
	}
	if changed < windowRows {
		return
	}
	hashWindows(s.prev[:n], s.prevSame[:n])
	hashWindows(s.cur[:n], s.curSame[:n])
	n -= windowRows - 1
	s.round++
	for i := range n {
		if s.prev[i] != s.cur[i] && s.prevSame[i] < windowRows {
			s.insert(s.prev[i], int32(i))
		}
	}
	for i := range n {
		if s.prev[i] != s.cur[i] && s.curSame[i] < windowRows {
			s.vote(s.cur[i], int32(i))
		}
	}
}

// insert remembers a window of the frame before.
func (s *stripSearch) insert(key uint64, row int32) {
	e := s.entry(key)
	if e.round != s.round {
		*e = stripEntry{key: key, round: s.round, last: -1}
	}
	s.next[row] = e.last
	e.last = row
	e.count++
}

// entry returns the entry of a key or an empty one for it. There is always one:
// the table has more entries than a strip has rows.
func (s *stripSearch) entry(key uint64) *stripEntry {
	mask := uint64(len(s.table) - 1)
	for i := key * hashFactor >> s.shift; ; i = (i + 1) & mask {
		if e := &s.table[i]; e.round != s.round || e.key == key {
			return e
		}
	}
}

// vote lets a window vote for where it was.
func (s *stripSearch) vote(key uint64, row int32) {
	e := s.entry(key)
	if e.round != s.round || e.count > maxTwins {
		return
	}
	weight := int32(1)
	if e.count == 1 {
		weight = votesOnce
	}
	for old := e.last; old >= 0; old = s.next[old] {
		v := row - old + int32(s.height)
		if s.votes[v] == 0 {
			s.voted = append(s.voted, v)
		}
		s.votes[v] += weight
	}
}

// hashFactor spreads hashes; it is 2^64 divided by the golden ratio.
const hashFactor = 0x9e3779b97f4a7c15

// hashRow returns a hash of a row of a strip, 16 or 32 pixels.
func hashRow(p []byte) uint64 {
	h := fold(word(p, 0)^0x2d358dccaa6c78a5, word(p, 8)^0x8bb84b93962eacc9)
	if len(p) == stripWidth {
		h ^= fold(word(p, 16)^0x4b33a62ed433d4a3, word(p, 24)^0x4d5a2da51de1aa47)
	}
	return h
}

// hashWindows replaces the hashes of rows by those of the windows that begin at
// each. same becomes the number of rows from each on that are the same, at most
// windowRows. Neither is right for the last windowRows - 1 rows.
func hashWindows(rows []uint64, same []uint8) {
	run := uint8(0)
	for i := len(rows) - 1; i >= 0; i-- {
		if i+1 < len(rows) && rows[i] == rows[i+1] {
			run = min(run+1, windowRows)
		} else {
			run = 1
		}
		same[i] = run
	}
	// The hash of a window is a polynomial of those of its rows, which takes
	// two multiplications to move on by one row.
	const f2 = hashFactor * hashFactor % (1 << 64)
	const f4 = f2 * f2 % (1 << 64)
	const highest = f4 * f2 % (1 << 64) * hashFactor % (1 << 64)
	var h uint64
	for _, r := range rows[:windowRows-1] {
		h = h*hashFactor + r
	}
	for i := range rows[:len(rows)-windowRows+1] {
		h = h*hashFactor + rows[i+windowRows-1]
		first := rows[i]
		rows[i] = h
		h -= first * highest
	}
}

// fold mixes two words, in the way of wyhash.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// word returns eight pixels.
func word(p []byte, at int) uint64 { return binary.LittleEndian.Uint64(p[at:]) }

// rotate8 turns a word by one pixel: a word of one colour stays the same.
func rotate8(w uint64) uint64 { return bits.RotateLeft64(w, 8) }
