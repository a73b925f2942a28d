package vp8screen

import "encoding/binary"

const (
	evenBytes = 0x00ff00ff00ff00ff
	laneOnes  = 0x0001000100010001
	laneTops  = 0x0100010001000100
)

// byteDistance returns the absolute differences of 8 samples, added in pairs in four lanes
// of 16 bits.
func byteDistance(a, b uint64) uint64 {
	d := (a&evenBytes | laneTops) - b&evenBytes
	n := (^d & laneTops) >> 8
	even := (d&evenBytes ^ n*0xff) + n
	d = (a>>8&evenBytes | laneTops) - b>>8&evenBytes
	n = (^d & laneTops) >> 8
	return even + (d&evenBytes ^ n*0xff) + n
}

// lanes adds up the four lanes of 16 bits.
func lanes(v uint64) int { return int(v * laneOnes >> 48) }

// planeDistanceGo is planeDistance for any processor.
func planeDistanceGo(a []byte, aStride int, b []byte, bStride, n int) int {
	var sum uint64
	for y := range n {
		r, s := a[y*aStride:], b[y*bStride:]
		sum += byteDistance(binary.LittleEndian.Uint64(r), binary.LittleEndian.Uint64(s))
		if n == 16 {
			sum += byteDistance(binary.LittleEndian.Uint64(r[8:]), binary.LittleEndian.Uint64(s[8:]))
		}
	}
	return lanes(sum)
}

// squareDistancesGo is squareDistances for any processor. It returns the distance of the
// source from each square.
func squareDistancesGo(source *square, squares *[subModes]square, d *[subModes]int32) {
	for i := range squares {
		d[i] = int32(lanes(byteDistance(source[0], squares[i][0]) + byteDistance(source[1], squares[i][1])))
	}
}
