package vp8screen

import "encoding/binary"

// A square is 4x4 samples, two rows in each word, the first sample lowest.
type square [2]uint64

// loadSquare reads the square at the start of p.
func loadSquare(p []byte, stride int) square {
	p = p[: 3*stride+4 : 3*stride+4]
	return square{
		uint64(binary.LittleEndian.Uint32(p)) | uint64(binary.LittleEndian.Uint32(p[stride:]))<<32,
		uint64(binary.LittleEndian.Uint32(p[2*stride:])) | uint64(binary.LittleEndian.Uint32(p[3*stride:]))<<32,
	}
}

func (s square) store(p []byte, stride int) {
	p = p[: 3*stride+4 : 3*stride+4]
	binary.LittleEndian.PutUint32(p, uint32(s[0]))
	binary.LittleEndian.PutUint32(p[stride:], uint32(s[0]>>32))
	binary.LittleEndian.PutUint32(p[2*stride:], uint32(s[1]))
	binary.LittleEndian.PutUint32(p[3*stride:], uint32(s[1]>>32))
}

// A surround has the samples from which sub-block modes predict: the left column from the
// bottom up, the corner, and eight samples of the row above (RFC 6386, 12.3).
//
//	index  0 1 2 3  4  5 6 7 8 9 10 11 12
//	       left     corner  above
type surround [13]byte

// avg2 and avg3 are the filters of the diagonal modes.
func (s *surround) avg2(i int) uint64 { return (uint64(s[i]) + uint64(s[i+1]) + 1) >> 1 }

func (s *surround) avg3(i int) uint64 {
	return (uint64(s[i-1]) + 2*uint64(s[i]) + uint64(s[i+1]) + 2) >> 2
}

// run3 packs the filtered samples i to i+n-1.
func (s *surround) run3(i, n int) uint64 {
	var v uint64
	for k := n - 1; k >= 0; k-- {
		v = v<<8 | s.avg3(i+k)
	}
	return v
}

// run2 packs the means of the pairs from i on.
func (s *surround) run2(i, n int) uint64 {
	var v uint64
	for k := n - 1; k >= 0; k-- {
		v = v<<8 | s.avg2(i+k)
	}
	return v
}

// rows makes a square of four rows of 32 bits.
func rows(a, b, c, d uint64) square {
	return square{a&0xffffffff | b<<32, c&0xffffffff | d<<32}
}

func (s *surround) predictAll(p *[subModes]square) {
	sum := uint64(4)
	for _, v := range s[:4] {
		sum += uint64(v)
	}
	for _, v := range s[5:9] {
		sum += uint64(v)
	}
	dc := everyByte * (sum >> 3)
	p[subDC] = square{dc, dc}
	p[subTM] = s.trueMotion()

	// The filtered samples from the bottom of the left column to the right end of the row
	// above. Byte i has the center i+1.
	low, high := s.run3(1, 8), s.run3(9, 3) // indices 1 to 8, and 9 to 11
	last := (uint64(s[11]) + 3*uint64(s[12]) + 2) >> 2
	ve := low >> 32
	p[subVE] = rows(ve, ve, ve, ve)
	first := (3*uint64(s[0]) + uint64(s[1]) + 2) >> 2
	const ones = 0x01010101
	p[subHE] = rows((low>>16&0xff)*ones, (low>>8&0xff)*ones, (low&0xff)*ones, first*ones)

	// LD: every row starts one sample further to the right.
	ld := low>>40 | high<<24 | last<<48
	p[subLD] = rows(ld, ld>>8, ld>>16, ld>>24)
	// RD: every row starts one sample further down the left column.
	p[subRD] = rows(low>>24, low>>16, low>>8, low)

	// VR and VL alternate between means of two and filters of three.
	two := s.run2(4, 5) // pairs (4,5) to (8,9)
	vr2, vr3 := two&0xffffffff, low>>24
	p[subVR] = rows(vr2, vr3, vr2<<8|low>>16&0xff, vr3<<8|low>>8&0xff)
	vl2, vl3 := s.run2(5, 4), low>>40|high<<24
	p[subVL] = rows(vl2, vl3, vl2>>8&0xffffff|(high>>8&0xff)<<24, vl3>>8&0xffffff|(high>>16&0xff)<<24)

	// HD and HU interleave both kinds along the left column.
	l2 := s.run2(0, 4) // pairs (0,1) to (3,4)
	hd := l2&0xff | (low&0xff)<<8 | (l2>>8&0xff)<<16 | (low>>8&0xff)<<24 |
		(l2>>16&0xff)<<32 | (low>>16&0xff)<<40 | (l2>>24&0xff)<<48 | (low>>24&0xff)<<56
	p[subHD] = rows(hd>>48|(low>>32&0xffff)<<16, hd>>32, hd>>16, hd)
	hu := l2>>16&0xff | (low>>8&0xff)<<8 | (l2>>8&0xff)<<16 | (low&0xff)<<24 |
		(l2&0xff)<<32 | first<<40 | uint64(s[0])<<48 | uint64(s[0])<<56
	end := uint64(s[0]) * ones
	p[subHU] = rows(hu, hu>>16, hu>>32, end)
}

// trueMotion computes TM_PRED, whose samples are above + left - corner.
func (s *surround) trueMotion() square {
	var q square
	for y := range 4 {
		base := int32(s[3-y]) - int32(s[4])
		row := uint64(clamp(base+int32(s[5]))) | uint64(clamp(base+int32(s[6])))<<8 |
			uint64(clamp(base+int32(s[7])))<<16 | uint64(clamp(base+int32(s[8])))<<24
		q[y>>1] |= row << (32 * (y & 1))
	}
	return q
}
