package main

import (
	"bytes"
	"time"
)

// A marker is a picture of 32x4 blocks, black or white. The blocks of the outer
// edge are a chessboard, which identifies a marker. Inside, row by row, are 60
// bits, the highest first: the time in milliseconds (32), a number (16) and a
// checksum of both (12). page/viewer.js reads it.
const (
	blockSize     = 8
	markerColumns = 32
	markerRows    = 4
	markerWidth   = markerColumns * blockSize
	markerHeight  = markerRows * blockSize

	timeBits, numberBits, sumBits = 32, 16, 12
)

// marker draws markers.
type marker struct{ pix []byte }

func newMarker() *marker {
	m := &marker{make([]byte, 4*markerWidth*markerHeight)}
	for y := range markerRows {
		for x := range markerColumns {
			if x == 0 || y == 0 || x == markerColumns-1 || y == markerRows-1 {
				m.set(x, y, (x+y)%2 == 0)
			}
		}
	}
	return m
}

// draw returns the picture of a marker, B, G, R, X, which is valid until the next
// call.
func (m *marker) draw(at time.Time, number uint16) []byte {
	content := uint64(uint32(at.UnixMilli()))<<numberBits | uint64(number) //nolint:gosec // it wraps around
	bits := content<<sumBits | uint64(checksum(content))
	const inside = markerColumns - 2
	for i := range timeBits + numberBits + sumBits {
		white := bits>>(timeBits+numberBits+sumBits-1-i)&1 == 1
		m.set(1+i%inside, 1+i/inside, white)
	}
	return m.pix
}

// set draws one block.
func (m *marker) set(column, row int, white bool) {
	value := byte(0)
	if white {
		value = 255
	}
	for y := row * blockSize; y < (row+1)*blockSize; y++ {
		copy(m.pix[4*(y*markerWidth+column*blockSize):], bytes.Repeat([]byte{value}, 4*blockSize))
	}
}

// checksum is the remainder of the content, shifted by 12 bits, divided by the
// polynomial x^12 + x^11 + x^3 + x^2 + x + 1. It finds every burst of up to 12
// wrong bits.
func checksum(content uint64) uint16 {
	const polynomial, top = 0x80f, 1 << (sumBits - 1)
	var sum uint16
	for i := timeBits + numberBits - 1; i >= 0; i-- {
		bit := uint16(content>>i&1) << (sumBits - 1)
		over := (sum^bit)&top != 0
		sum = sum << 1 & (1<<sumBits - 1)
		if over {
			sum ^= polynomial
		}
	}
	return sum
}
