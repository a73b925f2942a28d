package vp8screen

// The modes of luma and chroma prediction within a frame (RFC 6386, 11.2), then the modes of
// prediction from another frame (RFC 6386, 16.3).
const (
	predDC = iota
	predV
	predH
	predTM
	predSub // B_PRED: every 4x4 sub-block has its own mode
	interWhole
	interSplit
)

// The modes of 4x4 sub-blocks (RFC 6386, 11.2).
const (
	subDC = iota
	subTM
	subVE
	subHE
	subRD
	subVR
	subLD
	subVL
	subHD
	subHU
	subModes
)

// impliedSub is the sub-block mode of a whole mode in the contexts of neighbours (RFC 6386,
// 11.3).
var impliedSub = [4]uint8{subDC, subVE, subHE, subTM}

// The kinds of coefficient blocks (RFC 6386, 13.3).
const (
	kindLumaAC = iota
	kindY2
	kindChroma
	kindLuma
)

// zigzag is the order in which coefficients are coded (RFC 6386, 13), zigzagOf
// its inverse.
var (
	zigzag   = [16]uint8{0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15}
	zigzagOf = [16]uint8{0, 1, 5, 6, 2, 4, 7, 12, 3, 8, 11, 13, 9, 10, 14, 15}
)

// bands maps the index in that order to the band of its probabilities (RFC 6386, 13.3).
var bands = [16]uint8{0, 1, 2, 3, 6, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 7}

// A treePath is the path through a tree of probabilities to one leaf.
type treePath []treeStep

type treeStep struct {
	prob uint8
	bit  uint8
}

func (w *boolWriter) path(p treePath, probs []uint8) {
	for _, s := range p {
		w.put(uint32(s.bit), probs[s.prob])
	}
}

// The trees of modes and the fixed probabilities (RFC 6386, 11.2 to 11.5, 16.1).
var (
	keyModeProbs      = []uint8{145, 156, 163, 128}
	keyChromaProbs    = []uint8{142, 114, 183}
	defaultModeProbs  = []uint8{112, 86, 140, 37}
	defaultChromaProb = []uint8{162, 101, 204}
	interSubModeProbs = []uint8{120, 90, 79, 133, 87, 85, 80, 111, 151}

	keyModePaths = [5]treePath{
		predDC:  {{0, 1}, {1, 0}, {2, 0}},
		predV:   {{0, 1}, {1, 0}, {2, 1}},
		predH:   {{0, 1}, {1, 1}, {3, 0}},
		predTM:  {{0, 1}, {1, 1}, {3, 1}},
		predSub: {{0, 0}},
	}
	modePaths = [5]treePath{
		predDC:  {{0, 0}},
		predV:   {{0, 1}, {1, 0}, {2, 0}},
		predH:   {{0, 1}, {1, 0}, {2, 1}},
		predTM:  {{0, 1}, {1, 1}, {3, 0}},
		predSub: {{0, 1}, {1, 1}, {3, 1}},
	}
	chromaPaths = [4]treePath{
		predDC: {{0, 0}},
		predV:  {{0, 1}, {1, 0}},
		predH:  {{0, 1}, {1, 1}, {2, 0}},
		predTM: {{0, 1}, {1, 1}, {2, 1}},
	}
	subPaths = [subModes]treePath{
		subDC: {{0, 0}},
		subTM: {{0, 1}, {1, 0}},
		subVE: {{0, 1}, {1, 1}, {2, 0}},
		subHE: {{0, 1}, {1, 1}, {2, 1}, {3, 0}, {4, 0}},
		subRD: {{0, 1}, {1, 1}, {2, 1}, {3, 0}, {4, 1}, {5, 0}},
		subVR: {{0, 1}, {1, 1}, {2, 1}, {3, 0}, {4, 1}, {5, 1}},
		subLD: {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 0}},
		subVL: {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 1}, {7, 0}},
		subHD: {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 1}, {7, 1}, {8, 0}},
		subHU: {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {6, 1}, {7, 1}, {8, 1}},
	}
)

// The probabilities of motion vector modes by context (RFC 6386, 16.3), of the
// parts of vectors (17.1), and of updates to the latter (17.2).
var (
	vectorModeProbs = [6][4]uint8{
		{7, 1, 1, 143},
		{14, 18, 14, 107},
		{135, 64, 57, 68},
		{60, 56, 128, 65},
		{159, 134, 128, 34},
		{234, 188, 128, 28},
	}
	vectorProbs = [2][19]uint8{
		{162, 128, 225, 146, 172, 147, 214, 39, 156, 128, 129, 132, 75, 145, 178, 206, 239, 254, 254},
		{164, 128, 204, 170, 119, 235, 140, 230, 228, 128, 130, 130, 74, 148, 180, 203, 236, 254, 254},
	}
	vectorUpdateProbs = [2][19]uint8{
		{237, 246, 253, 253, 254, 254, 254, 254, 254, 254, 254, 254, 254, 254, 250, 250, 252, 254, 254},
		{231, 243, 245, 253, 254, 254, 254, 254, 254, 254, 254, 254, 254, 254, 251, 251, 254, 254, 254},
	}
	// Splitting (RFC 6386, 16.4): the partition, and the reference of each part
	// by context.
	splitProbs   = []uint8{110, 111, 150}
	splitRefProb = [5][]uint8{{147, 136, 18}, {106, 145, 1}, {179, 121, 1}, {223, 1, 34}, {208, 1, 1}}
)
