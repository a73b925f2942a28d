package vp8screen

// A quantizer holds what is needed to code blocks at one quantiser index.
type quantizer struct {
	index   int
	luma    stepPair // blocks of luma
	y2      stepPair // the block of luma DC values
	chroma  stepPair
	similar int   // a moved macroblock at most this far from its source stays as it is
	zeroAt  int32 // a 4x4 luma residual of at most this absolute sum has no AC level
}

// A stepPair is the steps for the first coefficient of a block and the others.
type stepPair struct {
	dc, ac step
}

// A step is one quantiser step.
type step struct {
	size  int32
	inv   uint32 // 2^16 / size, rounded up
	round uint32 // what is added before the division
}

func newStep(size, roundOf256 int) step {
	return step{int32(size), uint32((1<<16 + size - 1) / size), uint32(size * roundOf256 >> 8)}
}

// level returns what is coded for the coefficient c.
func (s *step) level(c int32) int32 {
	sign := c >> 31
	a := uint32((c^sign)-sign) + s.round
	return (int32(a*s.inv>>16) ^ sign) - sign
}

// The share of a step that is added before it is divided by: below a half, such
// that what is barely worth a level becomes none (RFC 6386 leaves this open).
const (
	roundDC = 112
	roundAC = 108

	similarPart = 10
	mostSimilar = 1200 // more could hide a character
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
	// About the mean difference that coding at this index leaves in text.
	q.similar = min(256*ac/similarPart, mostSimilar)
	// The largest weight of a sample in an AC coefficient of forwardDCT is
	// 0.86, rounding adds less than one and a half.
	q.zeroAt = int32((ac - ac*roundAC>>8 - 2) * 100 / 86)
	return q
}

// quantizers are those of every index.
var quantizers = func() (q [128]quantizer) {
	for i := range q {
		q[i] = newQuantizer(i)
	}
	return q
}()
