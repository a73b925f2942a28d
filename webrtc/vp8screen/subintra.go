package vp8screen

import "encoding/binary"

// workStride is the distance between the rows of a subWork.
const workStride = 32

// subWork is the buffer in which a macroblock is tried by sub-blocks. The samples begin at
// workStart. There is a row above them, with a corner and four samples to the right, and a
// column to their left.
type subWork struct {
	p         [17 * workStride]byte
	modes     [16]uint8
	squares   [subModes]square
	distances [subModes]int32
}

const workStart = workStride + 8

// load fills in the surroundings of the macroblock.
func (s *subWork) load(w *worker) {
	p, stride := w.e.next.Y, w.e.next.YStride
	e := &w.edge
	s.p[workStart-workStride-1] = e.corner
	copy(s.p[8:24], e.above[:])
	right := s.p[24:28]
	switch {
	case w.y == 0:
		for i := range right {
			right[i] = beyondTop
		}
	case w.x == w.e.cols-1:
		// Decoders repeat the last sample of the row above.
		for i := range right {
			right[i] = e.above[15]
		}
	default:
		copy(right, p[w.luma-stride+16:])
	}
	for y := range 16 {
		s.p[workStart+y*workStride-1] = e.left[y]
	}
	// The rightmost sub-blocks have the same samples above to the right in every row (RFC
	// 6386, 12.3).
	for y := 4; y < 16; y += 4 {
		copy(s.p[y*workStride+24:y*workStride+28], right)
	}
}

func (s *subWork) surround(at int, r *surround) {
	for i := range 4 {
		r[3-i] = s.p[at+i*workStride-1]
	}
	copy(r[4:13], s.p[at-workStride-1:])
}

// chooseSub codes the luma by sub-blocks in the buffer. It returns the cost and true, or limit
// and false if the cost is limit or more.
func (w *worker) chooseSub(limit, price int) (int, bool) {
	s := &w.sub
	s.load(w)
	bitPrice := w.q.bitPrice()
	// A whole mode saves the ends and first coefficients of 16 blocks.
	sum := (price + 16*256) * bitPrice >> 16
	var around surround
	var above, left [4]uint8
	key := w.e.key
	if key {
		above, left = w.e.subNeighbours(w.x, w.y)
	}
	for b := range 16 {
		at := workStart + b>>2*4*workStride + b&3*4
		s.surround(at, &around)
		around.predictAll(&s.squares)
		source := loadSquare(w.src.Y[w.luma+b>>2*4*w.src.YStride+b&3*4:], w.src.YStride)
		prices := &interSubCosts
		if key {
			prices = &subModeCosts[above[b&3]][left[b>>2]]
		}
		mode, cost := 0, 1<<30
		squareDistances(&source, &s.squares, &s.distances)
		for m, d := range s.distances {
			if c := int(d) + int(prices[m])*bitPrice>>16; c < cost {
				mode, cost = m, c
			}
		}
		sum += cost
		if sum >= limit {
			return limit, false
		}
		s.modes[b] = uint8(mode)
		above[b&3], left[b>>2] = uint8(mode), uint8(mode)
		s.squares[mode].store(s.p[at:], workStride)
		w.codeBlock(b, source, s.squares[mode], s.p[at:], workStride, &w.q.luma)
	}
	return sum, true
}

// subNeighbours returns the modes of the sub-blocks above a macroblock and to its left.
func (e *Encoder) subNeighbours(x, y int) (above, left [4]uint8) {
	at := y*e.cols + x
	for i := range 4 {
		if y > 0 {
			above[i] = e.subMode(at-e.cols, 12+i)
		}
		if x > 0 {
			left[i] = e.subMode(at-1, 4*i+3)
		}
	}
	return above, left
}

// subMode returns the mode of a sub-block, or the equivalent of its macroblock's mode.
func (e *Encoder) subMode(at, b int) uint8 {
	if m := e.info[at].mode; m < predSub {
		return impliedSub[m]
	}
	return e.subs[at][b]
}

// storeSub copies the buffer to the next frame. It reports whether there are coefficients.
func (w *worker) storeSub() bool {
	dst, stride := w.e.next.Y[w.luma:], w.e.next.YStride
	for y := range 16 {
		from := w.sub.p[workStart+y*workStride:]
		binary.LittleEndian.PutUint64(dst[y*stride:], binary.LittleEndian.Uint64(from))
		binary.LittleEndian.PutUint64(dst[y*stride+8:], binary.LittleEndian.Uint64(from[8:]))
	}
	w.e.subs[w.y*w.e.cols+w.x] = w.sub.modes
	var any uint32
	for _, n := range w.nonzero[:16] {
		any |= n
	}
	w.nonzero[block2] = 0
	return any != 0
}
