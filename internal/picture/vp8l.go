package picture

import (
	"cmp"
	"encoding/binary"
	"math/bits"
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

// prefixCode is a canonical Huffman code of VP8L (WebP lossless bitstream specification,
// section 6.2.1). Codes are reversed, because their top bit is written first.
type prefixCode struct {
	lengths []uint8
	codes   []uint16
	single  bool // at most one symbol, which takes no bits
}

const (
	maxCodeLength       = 15
	maxLengthCodeLength = 7
)

// newPrefixCode makes the code for symbols with these counts.
func newPrefixCode(counts []uint32, limit int) prefixCode {
	c := prefixCode{lengths: codeLengths(counts, limit), codes: make([]uint16, len(counts))}
	var starting [maxCodeLength + 2]int
	used := 0
	for _, n := range c.lengths {
		if n > 0 {
			starting[n+1]++
			used++
		}
	}
	c.single = used <= 1
	next := 0
	for n := 1; n < len(starting); n++ {
		next = (next + starting[n]) << 1
		starting[n] = next
	}
	for i, n := range c.lengths {
		if n > 0 {
			c.codes[i] = bits.Reverse16(uint16(starting[n])) >> (16 - n)
			starting[n]++
		}
	}
	return c
}

// codeLengths returns the lengths of a Huffman code, zero for symbols that do not occur. It
// flattens the counts until no length exceeds limit.
func codeLengths(counts []uint32, limit int) []uint8 {
	lengths := make([]uint8, len(counts))
	type leaf struct {
		symbol int
		count  uint64
	}
	var leaves []leaf
	for i, n := range counts {
		if n > 0 {
			leaves = append(leaves, leaf{i, uint64(n)})
		}
	}
	switch len(leaves) {
	case 0:
		return lengths
	case 1:
		lengths[leaves[0].symbol] = 1
		return lengths
	}
	slices.SortStableFunc(leaves, func(a, b leaf) int { return cmp.Compare(a.count, b.count) })
	weights := make([]uint64, len(leaves))
	for {
		for i, l := range leaves {
			weights[i] = l.count
		}
		depths := huffmanDepths(weights)
		if slices.Max(depths) <= limit {
			for i, l := range leaves {
				lengths[l.symbol] = uint8(depths[i])
			}
			return lengths
		}
		for i := range leaves {
			leaves[i].count = leaves[i].count/2 + 1
		}
	}
}

// huffmanDepths returns the depths of the leaves of a Huffman tree from their ascending
// weights. Inner nodes are created in ascending order as well, so two queues replace a heap.
func huffmanDepths(weights []uint64) []int {
	n := len(weights)
	nodes := append(make([]uint64, 0, 2*n-1), weights...)
	parents := make([]int, 2*n-1)
	leaf, inner := 0, n
	take := func(parent int) uint64 {
		i := leaf
		if leaf < n && (inner == len(nodes) || nodes[leaf] <= nodes[inner]) {
			leaf++
		} else {
			i = inner
			inner++
		}
		parents[i] = parent
		return nodes[i]
	}
	for parent := n; parent < 2*n-1; parent++ {
		sum := take(parent)
		nodes = append(nodes, sum+take(parent))
	}
	depths := make([]int, 2*n-1)
	for i := 2*n - 3; i >= 0; i-- {
		depths[i] = depths[parents[i]] + 1
	}
	return depths[:n]
}

func (c *prefixCode) put(s *bitString, symbol int) {
	if !c.single {
		s.put(uint64(c.codes[symbol]), uint(c.lengths[symbol]))
	}
}

// describe appends the code itself (section 6.2.1).
func (c *prefixCode) describe(s *bitString) {
	var few []int
	for i, n := range c.lengths {
		if n > 0 && len(few) < 3 {
			few = append(few, i)
		}
	}
	if len(few) == 0 {
		few = []int{0}
	}
	// The simple form has one or two symbols of eight bits in canonical order.
	if len(few) <= 2 && few[len(few)-1] < 256 {
		s.put(1, 1)
		s.put(uint64(len(few)-1), 1)
		s.put(1, 1)
		for _, symbol := range few {
			s.put(uint64(symbol), 8)
		}
		return
	}
	c.describeLengths(s)
}

// lengthOrder is the order of the lengths of the code for lengths.
var lengthOrder = [19]int{17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

func (c *prefixCode) describeLengths(s *bitString) {
	runs := lengthRuns(c.lengths)
	counts := make([]uint32, 19)
	for _, r := range runs {
		counts[r.symbol]++
	}
	code := newPrefixCode(counts, maxLengthCodeLength)
	n := len(lengthOrder)
	for n > 4 && code.lengths[lengthOrder[n-1]] == 0 {
		n--
	}
	s.put(0, 1)
	s.put(uint64(n-4), 4)
	for _, symbol := range lengthOrder[:n] {
		s.put(uint64(code.lengths[symbol]), 3)
	}
	s.put(0, 1) // lengths of the whole alphabet follow
	for _, r := range runs {
		code.put(s, r.symbol)
		s.put(uint64(r.extra), r.bits)
	}
}

// lengthRun is a symbol of the code for lengths with its extra bits.
type lengthRun struct {
	symbol int
	extra  int
	bits   uint
}

// lengthRuns encodes lengths with the symbols 16 (the last nonzero length, 3-6 times), 17
// (zero, 3-10 times) and 18 (zero, 11-138 times).
func lengthRuns(lengths []uint8) []lengthRun {
	var runs []lengthRun
	for i := 0; i < len(lengths); {
		v, n := lengths[i], 1
		for i+n < len(lengths) && lengths[i+n] == v {
			n++
		}
		i += n
		if v != 0 {
			runs = append(runs, lengthRun{symbol: int(v)})
			n--
		}
		for n >= 3 {
			k := 0
			switch {
			case v != 0:
				k = min(n, 6)
				runs = append(runs, lengthRun{16, k - 3, 2})
			case n > 10:
				k = min(n, 138)
				runs = append(runs, lengthRun{18, k - 11, 7})
			default:
				k = n
				runs = append(runs, lengthRun{17, k - 3, 3})
			}
			n -= k
		}
		for ; n > 0; n-- {
			runs = append(runs, lengthRun{symbol: int(v)})
		}
	}
	return runs
}

// prefixed splits a length or distance of at least 1 into a symbol and extra bits (section
// 5.2.2).
func prefixed(v int) (symbol int, extra uint64, n uint) {
	v--
	if v < 2 {
		return v, 0, 0
	}
	top := bits.Len(uint(v)) - 1
	n = uint(top - 1)
	return 2*top + v>>n&1, uint64(v) & (1<<n - 1), n
}
