package picture

import (
	"encoding/binary"
	"slices"
)

// lossless encodes pixels as VP8L image data (WebP lossless bitstream specification, section
// 5): literals and copies of earlier pixels. The zero value finds only copies of adjacent
// pixels.
type lossless struct {
	pixels []uint32 // blue, green, red and alpha from the low byte on
	tokens []uint64
	head   []int32 // per hash: its last position, plus one
	before []int32 // per position: the previous position with its hash, plus one
	codes  bitString
	data   bitString
}

// newLossless returns an encoder that finds copies everywhere.
func newLossless() *lossless { return &lossless{head: make([]int32, 1<<hashBits)} }

const (
	hashBits   = 15
	maxCopy    = 4096 // pixels
	maxBack    = 1<<20 - 121
	chainSteps = 12
	goodCopy   = 64 // ends the search
	minCopy    = 3
	minFarCopy = 4

	// The alphabets, section 5.2: literals of green with the symbols for
	// lengths; red, blue and alpha; distances.
	lengthSymbols   = 24
	distanceSymbols = 40

	copyToken = 1 << 63 // with the length in the bits from 32 on and the distance code below
)

// encode encodes l.pixels into l.codes and l.data.
func (l *lossless) encode(width int) {
	l.match(width)
	var counts [5][]uint32
	for i, n := range []int{256 + lengthSymbols, 256, 256, 256, distanceSymbols} {
		counts[i] = make([]uint32, n)
	}
	for _, t := range l.tokens {
		if t&copyToken == 0 {
			counts[0][t>>8&0xff]++
			counts[1][t>>16&0xff]++
			counts[2][t&0xff]++
			counts[3][t>>24&0xff]++
			continue
		}
		length, _, _ := prefixed(int(t >> 32 & 0x1fff))
		distance, _, _ := prefixed(int(uint32(t)))
		counts[0][256+length]++
		counts[4][distance]++
	}
	var codes [5]prefixCode
	l.codes.reset()
	for i := range codes {
		codes[i] = newPrefixCode(counts[i], maxCodeLength)
		codes[i].describe(&l.codes)
	}
	l.data.reset()
	l.write(&codes)
}

func (l *lossless) write(codes *[5]prefixCode) {
	for _, t := range l.tokens {
		if t&copyToken == 0 {
			codes[0].put(&l.data, int(t>>8&0xff))
			codes[1].put(&l.data, int(t>>16&0xff))
			codes[2].put(&l.data, int(t&0xff))
			codes[3].put(&l.data, int(t>>24&0xff))
			continue
		}
		symbol, extra, n := prefixed(int(t >> 32 & 0x1fff))
		codes[0].put(&l.data, 256+symbol)
		l.data.put(extra, n)
		symbol, extra, n = prefixed(int(uint32(t)))
		codes[4].put(&l.data, symbol)
		l.data.put(extra, n)
	}
}

// match turns the pixels into tokens, with the longest copy at each position.
func (l *lossless) match(width int) {
	p := l.pixels
	l.tokens = l.tokens[:0]
	clear(l.head)
	if l.head != nil {
		l.before = slices.Grow(l.before[:0], len(p))[:len(p)]
	}
	for i := 0; i < len(p); {
		length, back := l.longest(i, width)
		if length == 0 {
			l.remember(i)
			l.tokens = append(l.tokens, uint64(p[i]))
			i++
			continue
		}
		l.tokens = append(l.tokens, copyToken|uint64(length)<<32|distanceCode(back, width))
		// Later positions of long copies are rarely needed.
		for k := i; k < i+min(length, goodCopy); k++ {
			l.remember(k)
		}
		i += length
	}
}

// distanceCode returns the code of a distance (section 5.2.2). One row up and one pixel left
// have short codes.
func distanceCode(back, width int) uint64 {
	switch back {
	case width:
		return 1
	case 1:
		return 2
	}
	return uint64(back + 120)
}

// longest returns the longest copy for position i that saves bits, or zero.
func (l *lossless) longest(i, width int) (length, back int) {
	p := l.pixels
	limit := min(len(p)-i, maxCopy)
	try := func(d, least int) {
		if n := run(p[i:i+limit], p[i-d:]); n >= least && n > length {
			length, back = n, d
		}
	}
	if i >= width && width <= maxBack {
		try(width, minCopy)
	}
	if i >= 1 {
		try(1, minCopy)
	}
	if l.head == nil || length >= goodCopy || limit < minFarCopy {
		return length, back
	}
	at := int(l.head[hashPixels(p[i:])]) - 1
	for range chainSteps {
		if at < 0 || i-at > maxBack {
			break
		}
		// A far copy costs about a pixel more than a near one.
		try(i-at, max(minFarCopy, length+2))
		if length >= goodCopy {
			break
		}
		at = int(l.before[at]) - 1
	}
	return length, back
}

// run returns how many pixels are equal. b is at least as long as a.
func run(a, b []uint32) int {
	b = b[:len(a)]
	for n := range a {
		if a[n] != b[n] {
			return n
		}
	}
	return len(a)
}

// remember makes position i available for copies. In an area of one colour, only its start is.
func (l *lossless) remember(i int) {
	p := l.pixels
	if l.head == nil || i+minFarCopy > len(p) || i > 0 && p[i] == p[i-1] && p[i] == p[i+1] && p[i] == p[i+2] {
		return
	}
	h := hashPixels(p[i:])
	l.before[i] = l.head[h]
	l.head[h] = int32(i + 1)
}

// hashPixels hashes three pixels.
func hashPixels(p []uint32) uint32 {
	return (p[0]*0x9e3779b1 ^ p[1]*0x85ebca77 ^ p[2]*0xc2b2ae3d) * 0x27d4eb2f >> (32 - hashBits)
}

// bitString is a string of bits in VP8L's order: the first bit is the lowest one of the first
// byte.
type bitString struct {
	b    []byte
	acc  uint64 // the last bits, fewer than 32
	nacc uint
}

// put appends the low n bits of v, whose other bits are zero. n is at most 32.
func (s *bitString) put(v uint64, n uint) {
	s.acc |= v << s.nacc
	if s.nacc += n; s.nacc >= 32 {
		s.b = binary.LittleEndian.AppendUint32(s.b, uint32(s.acc))
		s.acc >>= 32
		s.nacc -= 32
	}
}

func (s *bitString) reset() { s.b, s.acc, s.nacc = s.b[:0], 0, 0 }

// bytes returns a copy of the bits, padded with zeros, and their number.
func (s *bitString) bytes() ([]byte, int) {
	n := 8*len(s.b) + int(s.nacc)
	c := *s
	c.b = append(make([]byte, 0, n/8+1), s.b...)
	return c.flushed(), n
}

// flushed returns the bits, padded with zeros. Nothing may be appended afterwards.
func (s *bitString) flushed() []byte {
	for n := 0; n < int(s.nacc); n += 8 {
		s.b = append(s.b, byte(s.acc>>n))
	}
	return s.b
}

// join appends n bits of a result of bytes.
func (s *bitString) join(b []byte, n int) {
	for ; n >= 32; n -= 32 {
		s.put(uint64(binary.LittleEndian.Uint32(b)), 32)
		b = b[4:]
	}
	for ; n > 0; n -= 8 {
		s.put(uint64(b[0]), uint(min(n, 8)))
		b = b[1:]
	}
}
