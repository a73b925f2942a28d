package picture

import (
	"cmp"
	"math/bits"
	"slices"
)

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

// put appends the code of a symbol.
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
