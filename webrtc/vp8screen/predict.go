package vp8screen

import "encoding/binary"

// The samples beyond the frame's edges (RFC 6386, 12.2 and 12.3).
const (
	beyondTop  = 127
	beyondLeft = 129
)

// An edge is the row above a square of samples and the column to its left.
type edge struct {
	above       [16]byte
	left        [16]byte
	corner      byte
	hasAbove    bool
	hasLeft     bool
	size, shift int // 16 and 3 for luma, 8 and 2 for chroma
	scratch     [16 * 16]byte
}

// load fills in the edge of the square of size n at column x and row y of the plane p.
func (e *edge) load(p []byte, stride, x, y, n int) {
	e.hasAbove, e.hasLeft, e.size, e.shift = y > 0, x > 0, n, 3
	if n == 8 {
		e.shift = 2
	}
	at := y*n*stride + x*n
	e.corner = beyondLeft
	if y == 0 {
		e.corner = beyondTop
		for i := range e.above {
			e.above[i] = beyondTop
		}
	} else {
		copy(e.above[:n], p[at-stride:])
		if x > 0 {
			e.corner = p[at-stride-1]
		}
	}
	if x == 0 {
		for i := range e.left {
			e.left[i] = beyondLeft
		}
		return
	}
	column := p[at-1:]
	for i := range e.left[:n] {
		e.left[i] = column[i*stride]
	}
}

func (e *edge) dc() byte {
	sum, shift := 0, e.shift
	if e.hasAbove {
		for _, v := range e.above[:e.size] {
			sum += int(v)
		}
		shift++
	}
	if e.hasLeft {
		for _, v := range e.left[:e.size] {
			sum += int(v)
		}
		shift++
	}
	if shift == e.shift {
		return 128
	}
	return byte((sum + 1<<shift>>1) >> shift)
}

const everyByte = 0x0101010101010101

// fill writes the prediction by mode at the start of p.
func (e *edge) fill(p []byte, stride int, mode uint8) {
	switch mode {
	case predDC:
		e.fillFlat(p, stride, e.dc())
	case predV:
		for i := range e.size {
			copy(p[i*stride:i*stride+e.size], e.above[:])
		}
	case predH:
		for i := range e.size {
			v := everyByte * uint64(e.left[i])
			for k := 0; k < e.size; k += 8 {
				binary.LittleEndian.PutUint64(p[i*stride+k:], v)
			}
		}
	case predTM:
		for i := range e.size {
			base := int32(e.left[i]) - int32(e.corner)
			row := p[i*stride : i*stride+e.size]
			above := e.above[:len(row)]
			for k := range row {
				row[k] = clamp(base + int32(above[k]))
			}
		}
	}
}

func (e *edge) fillFlat(p []byte, stride int, value byte) {
	v := everyByte * uint64(value)
	for i := range e.size {
		for k := 0; k < e.size; k += 8 {
			binary.LittleEndian.PutUint64(p[i*stride+k:], v)
		}
	}
}
