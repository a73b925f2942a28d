package vp8screen

import (
	"encoding/binary"
	"math/bits"
)

// A quantizer codes blocks at one quantiser index.
type quantizer struct {
	index   int
	luma    stepPair // blocks of luma
	y2      stepPair // the block of luma DC values
	chroma  stepPair
	similar int   // largest distance of a moved macroblock without coefficients
	zeroAt  int32 // largest absolute sum of a 4x4 luma residual that surely has no AC level
}

// A stepPair has the steps of the first coefficient of a block and of the others.
type stepPair struct {
	dc, ac step
}

type step struct {
	size  int32
	inv   uint32 // 2^16 / size, rounded up
	round uint32 // added before the division
}

func newStep(size, roundOf256 int) step {
	return step{int32(size), uint32((1<<16 + size - 1) / size), uint32(size * roundOf256 >> 8)}
}

func (s *step) level(c int32) int32 {
	sign := c >> 31
	a := uint32((c^sign)-sign) + s.round
	return (int32(a*s.inv>>16) ^ sign) - sign
}

// The share of a step that is added before the division, in 1/256. It is below a half, so
// that small coefficients become zero (RFC 6386 leaves this open).
const (
	roundDC = 112
	roundAC = 108

	similarPart = 10
	mostSimilar = 1200 // a larger distance could hide a character
)

// newQuantizer computes the steps of an index (RFC 6386, 9.6 and 14.1).
func newQuantizer(index int) quantizer {
	dc, ac := int(dcSteps[index]), int(acSteps[index])
	q := quantizer{
		index:  index,
		luma:   stepPair{newStep(dc, roundDC), newStep(ac, roundAC)},
		y2:     stepPair{newStep(2*dc, roundDC), newStep(max(ac*155/100, 8), roundAC)},
		chroma: stepPair{newStep(min(dc, 132), roundDC), newStep(ac, roundAC)},
	}
	// About the error that coding at this index leaves in text.
	q.similar = min(256*ac/similarPart, mostSimilar)
	// The largest weight of a sample in an AC coefficient of forwardDCT is
	// 0.86, rounding adds less than one and a half.
	q.zeroAt = int32((ac - ac*roundAC>>8 - 2) * 100 / 86)
	return q
}

// quantizers has the quantizer of every index.
var quantizers = func() (q [128]quantizer) {
	for i := range q {
		q[i] = newQuantizer(i)
	}
	return q
}()

// The segments of a frame: groups of macroblocks with their own quantiser (RFC 6386, 9.3 and
// 10).
const (
	segmentChanged = iota
	segmentRefined
	segmentText // changed, and looks like text
	segments
)

const (
	// textFrom is the index from which text is coded more finely than the rest, to stay
	// readable. textPart is its part of the index.
	textFrom = 40
	textPart = 0.6
	// textPairs is how many of the 224 pairs of samples must be equal for text.
	textPairs = 112
)

// textIndex returns the quantiser for text in a frame of index q. At the coarsest indices it
// approaches q.
func textIndex(q, least int) int {
	const give, none = coarseLimit, 100
	switch {
	case q < textFrom || q >= none:
		return q
	case q <= give:
		return max(least, int(float64(q)*textPart))
	}
	at := textPart * give
	return max(least, int(at+float64(q-give)*(none-at)/(none-give)))
}

// looksLikeText reports whether many adjacent samples are equal. That is so where programs
// draw, and not in photographs.
func (w *worker) looksLikeText() bool {
	const low, high = 0x007f7f7f7f7f7f7f, 0x0080808080808080
	equal := 0
	for y := range 16 {
		row := w.src.Y[w.luma+y*w.src.YStride:]
		for x := 0; x < 16; x += 8 {
			v := binary.LittleEndian.Uint64(row[x:])
			v ^= v >> 8
			// The highest bit of each byte that is not zero.
			set := (v&low + low | v) & high
			equal += 7 - bits.OnesCount64(set)
		}
	}
	return equal >= textPairs
}

// chooseSegment sets the quantiser of a changed macroblock.
func (w *worker) chooseSegment() uint8 {
	s := uint8(segmentChanged)
	if q := &w.e.segments; q[segmentText] != q[segmentChanged] && w.looksLikeText() {
		s = segmentText
	}
	w.q = &quantizers[w.e.segments[s]]
	return s
}

// segmentProbs returns the probabilities of the map for the counts of segments.
func segmentProbs(n *[segments]int, all int) [3]uint8 {
	text := n[segmentText]
	return [3]uint8{
		share(all-text, all),
		share(all-text-n[segmentRefined], max(1, all-text)),
		255,
	}
}
