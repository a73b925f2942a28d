package vp8screen

// The indices of blocks among the 25 of a macroblock, and of their flags in the contexts of
// neighbours.
const (
	blockU = 16
	blockV = 20
	block2 = 24 // Y2

	flagU  = 4
	flagV  = 6
	flag2  = 8
	nFlags = 9
)

// A worker codes macroblocks, row by row.
type worker struct {
	e     *Encoder
	src   *Frame
	x, y  int // of the macroblock
	luma  int // its offset in the plane of luma
	uv    int // its offset in the planes of chroma
	q     *quantizer
	left  [nFlags]uint8
	out   []token
	count tokenCount
	stats frameStats

	edge, edgeV edge
	levels      [25][16]int16
	nonzero     [25]uint32 // by coded order
	coef        [25][16]int32

	vectors [16]vector // of the sub-blocks
	budget  int        // bytes left in the row for modes and vectors of sub-blocks

	codeRows, writeParts func() // run in a goroutine
	sub                  subWork
	win                  [windowSize * windowStride]byte
}

// frameStats counts the macroblocks of a frame.
type frameStats struct {
	coded, intra, moved, refined int
	stored                       [refs]int // by stored frame
	segments                     [segments]int
}

func (s *frameStats) add(o frameStats) {
	s.coded += o.coded
	s.intra += o.intra
	s.moved += o.moved
	s.refined += o.refined
	for i, n := range o.segments {
		s.segments[i] += n
	}
	for i, n := range o.stored {
		s.stored[i] += n
	}
}

func (w *worker) at(x, y int) {
	w.x, w.y = x, y
	w.luma = y*16*w.e.next.YStride + x*16
	w.uv = y*8*w.e.next.UVStride + x*8
}

// residual writes the difference of two squares into c. It returns the sum of its absolute
// values.
func residual(s, p square, c *[16]int32) (sum int32) {
	for half := range 2 {
		a, b := s[half], p[half]
		for i := range 8 {
			d := int32(a&255) - int32(b&255)
			a >>= 8
			b >>= 8
			c[half*8+i] = d
			m := d >> 31
			sum += (d ^ m) - m
		}
	}
	return sum
}

// quantizeAC quantises all coefficients but the first. It replaces each by the decoder's value.
func quantizeAC(c *[16]int32, levels *[16]int16, s *step) (nonzero uint32) {
	least := s.size - int32(s.round)
	for i := 1; i < 16; i++ {
		v := c[i]
		if v < least && v > -least {
			c[i], levels[i] = 0, 0
			continue
		}
		l := s.level(v)
		c[i], levels[i] = l*s.size, int16(l)
		nonzero |= 1 << zigzagOf[i]
	}
	return nonzero
}

func quantizeDC(c *[16]int32, levels *[16]int16, s *step) (nonzero uint32) {
	l := s.level(c[0])
	c[0], levels[0] = l*s.size, int16(l)
	if l != 0 {
		return 1
	}
	return 0
}

// codeLuma codes the difference of luma from the prediction in the next frame, and adds it
// there. It reports whether there are coefficients.
func (w *worker) codeLuma() bool {
	stride := w.e.next.YStride
	src, dst := w.src.Y[w.luma:], w.e.next.Y[w.luma:]
	dcs := &w.coef[block2]
	var any uint32
	for b := range 16 {
		at := b>>2*4*stride + b&3*4
		s, p := loadSquare(src[at:], stride), loadSquare(dst[at:], stride)
		w.nonzero[b] = 0
		if s == p {
			dcs[b] = 0
			continue
		}
		c := &w.coef[b]
		if residual(s, p, c) <= w.q.zeroAt {
			dcs[b] = sumOf(c)
			continue
		}
		forwardDCT(c)
		dcs[b] = c[0]
		w.nonzero[b] = quantizeAC(c, &w.levels[b], &w.q.luma.ac)
		any |= w.nonzero[b]
	}
	forwardWHT(dcs)
	w.nonzero[block2] = quantizeDC(dcs, &w.levels[block2], &w.q.y2.dc) | quantizeAC(dcs, &w.levels[block2], &w.q.y2.ac)
	if any|w.nonzero[block2] == 0 {
		return false
	}
	if w.nonzero[block2] != 0 {
		inverseWHT(dcs)
	}
	for b := range 16 {
		at := b>>2*4*stride + b&3*4
		switch {
		case w.nonzero[b] != 0:
			w.coef[b][0] = dcs[b]
			addInverseDCT(&w.coef[b], dst[at:], stride)
		case dcs[b] != 0:
			addDC(dcs[b], dst[at:], stride)
		}
	}
	return true
}

// sumOf returns the first coefficient of forwardDCT.
func sumOf(c *[16]int32) int32 {
	var sum int32
	for _, v := range c {
		sum += v
	}
	return (sum<<3 + 7) >> 4
}

// codeChroma is like codeLuma, for chroma.
func (w *worker) codeChroma() bool {
	stride := w.e.next.UVStride
	u := w.codeBlocks(w.src.U[w.uv:], w.e.next.U[w.uv:], stride, blockU, 4, &w.q.chroma)
	v := w.codeBlocks(w.src.V[w.uv:], w.e.next.V[w.uv:], stride, blockV, 4, &w.q.chroma)
	return u || v
}

// codeBlocks is like codeLuma, for 16 or 4 blocks with their own first coefficients.
func (w *worker) codeBlocks(src, dst []byte, stride, first, count int, steps *stepPair) bool {
	var any uint32
	shift := 1 + count>>4
	for k := range count {
		at := k>>shift*4*stride + k&(1<<shift-1)*4
		w.codeBlock(first+k, loadSquare(src[at:], stride), loadSquare(dst[at:], stride), dst[at:], stride, steps)
		any |= w.nonzero[first+k]
	}
	return any != 0
}

// codeBlock codes the difference of a square from its prediction, and adds it to the prediction
// at the start of dst.
func (w *worker) codeBlock(b int, source, prediction square, dst []byte, stride int, steps *stepPair) {
	w.nonzero[b] = 0
	if source == prediction {
		return
	}
	c := &w.coef[b]
	var n uint32
	if residual(source, prediction, c) <= w.q.zeroAt {
		c[0] = sumOf(c)
		n = quantizeDC(c, &w.levels[b], &steps.dc)
	} else {
		forwardDCT(c)
		n = quantizeDC(c, &w.levels[b], &steps.dc) | quantizeAC(c, &w.levels[b], &steps.ac)
	}
	w.nonzero[b] = n
	switch {
	case n > 1:
		addInverseDCT(c, dst, stride)
	case n == 1:
		addDC(c[0], dst, stride)
	}
}

func (w *worker) putTokens(info *blockInfo) {
	above, left := &w.e.above[w.x], &w.left
	kind, first := kindLuma, 0
	if info.mode != predSub && info.mode != interSplit {
		kind, first = kindLumaAC, 1
		w.put(block2, kindY2, 0, &above[flag2], &left[flag2])
	}
	for b := range 16 {
		w.put(b, kind, first, &above[b&3], &left[b>>2])
	}
	for b := range 4 {
		w.put(blockU+b, kindChroma, 0, &above[flagU+b&1], &left[flagU+b>>1])
	}
	for b := range 4 {
		w.put(blockV+b, kindChroma, 0, &above[flagV+b&1], &left[flagV+b>>1])
	}
}

func (w *worker) put(b, kind, first int, above, left *uint8) {
	w.out = w.count.block(w.out, &w.levels[b], w.nonzero[b], kind, first, int(*above+*left))
	flag := b2u(w.nonzero[b] != 0)
	*above, *left = flag, flag
}

// putNone updates the contexts for a macroblock without coefficients. If it is predicted by
// sub-blocks, the context of Y2 stays (RFC 6386, 13.3).
func (w *worker) putNone(info *blockInfo) {
	above, left := &w.e.above[w.x], &w.left
	y2a, y2l := above[flag2], left[flag2]
	*above, *left = [nFlags]uint8{}, [nFlags]uint8{}
	if info.mode == predSub || info.mode == interSplit {
		above[flag2], left[flag2] = y2a, y2l
	}
}
