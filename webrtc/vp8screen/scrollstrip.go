package vp8screen

import (
	"encoding/binary"
	"math/bits"
)

const (
	// stripWidth is how many pixels of a row are hashed together. A region must be about
	// twice as wide to contain a whole strip.
	stripWidth = 2 * mbSize
	// windowRows is the height of a window: large enough that windows of text rarely repeat,
	// and small because a change affects all windows around it.
	windowRows = 8

	// votesOnce is the weight of a window that occurred once before. A window that occurred
	// up to maxTwins times has one vote for each.
	votesOnce = 4
	maxTwins  = 4
	// minVotes is how many votes a distance needs: 16 unique windows.
	minVotes = 16 * votesOnce
	// maxVertical is how many distances are tried.
	maxVertical = 5

	// With more columns than this, only every other strip is searched.
	manyColumns = 48
)

// stripSearch finds vertical motion. It looks up windows of a few rows, in strips of a few
// columns, in the previous frame. Each window that it finds votes for the distance. Single rows
// would repeat too often.
type stripSearch struct {
	height    int
	prev, cur []uint64 // hashes of rows, later of windows
	prevSame  []uint8  // how many rows from here on are equal, up to windowRows
	curSame   []uint8
	next      []int32 // the row of the previous window with the same hash, or -1
	table     []stripEntry
	shift     uint // from a hash to an index of table
	round     uint32
	votes     []int32 // by distance + height
	voted     []int32 // the indices of votes that are not zero
}

type stripEntry struct {
	key   uint64
	round uint32 // an entry of another round is empty
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

// liveColumns returns the number of columns from the first to the last searched macroblock.
func liveColumns(f *ScrollFinder) int {
	first, last := f.cols, -1
	for row := range f.rows {
		for col, live := range f.live[row*f.cols:][:f.cols] {
			if live {
				first, last = min(first, col), max(last, col)
			}
		}
	}
	return last + 1 - first
}

// liveRows returns the rows from the first to the last searched macroblock of the strip that
// begins at a column.
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

// strip adds the votes of one strip, from row y0 up to y1.
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

// insert adds a window of the previous frame.
func (s *stripSearch) insert(key uint64, row int32) {
	e := s.entry(key)
	if e.round != s.round {
		*e = stripEntry{key: key, round: s.round, last: -1}
	}
	s.next[row] = e.last
	e.last = row
	e.count++
}

// entry returns the entry of a key, or an empty one. The table has more entries than a strip
// has rows.
func (s *stripSearch) entry(key uint64) *stripEntry {
	mask := uint64(len(s.table) - 1)
	for i := key * hashFactor >> s.shift; ; i = (i + 1) & mask {
		if e := &s.table[i]; e.round != s.round || e.key == key {
			return e
		}
	}
}

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

// hashFactor is 2^64 divided by the golden ratio.
const hashFactor = 0x9e3779b97f4a7c15

// hashRow returns a hash of a row of a strip, 16 or 32 pixels.
func hashRow(p []byte) uint64 {
	h := fold(word(p, 0)^0x2d358dccaa6c78a5, word(p, 8)^0x8bb84b93962eacc9)
	if len(p) == stripWidth {
		h ^= fold(word(p, 16)^0x4b33a62ed433d4a3, word(p, 24)^0x4d5a2da51de1aa47)
	}
	return h
}

// hashWindows replaces the hash of each row by the hash of the window that begins there. It
// sets same to the number of equal rows from each on, at most windowRows. Neither is valid
// for the last windowRows - 1 rows.
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
	// The hash of a window is a polynomial of the hashes of its rows. The next window takes
	// two multiplications.
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

// fold mixes two words like wyhash.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// word returns eight pixels.
func word(p []byte, at int) uint64 { return binary.LittleEndian.Uint64(p[at:]) }

// rotate8 rotates a word by one pixel. A word of equal pixels stays the same.
func rotate8(w uint64) uint64 { return bits.RotateLeft64(w, 8) }
