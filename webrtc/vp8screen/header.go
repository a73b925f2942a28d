package vp8screen

// A frameHeader is the header of the first partition (RFC 6386, 9.2 to 9.11 and 19.2).
type frameHeader struct {
	key        bool
	quantizer  int
	segments   []int // quantiser indices; nil: one segment
	segmentMap [3]uint8
	partitions int // the binary logarithm of the number of token partitions
	probSkip   uint8
	probInter  uint8 // that a macroblock is not inter
	probLast   uint8 // that an inter macroblock is predicted from the last frame
	probGolden uint8 // that another one is predicted from the golden frame
	keep       [refs]bool
	tokens     *tokenCount
}

func (h *frameHeader) write(w *boolWriter, probs *tokenProbs) {
	if h.key {
		w.literal(0, 2) // colour space, clamping needed
	}
	h.writeSegments(w)
	// The loop filter is off: it would blur text and change skipped blocks.
	w.literal(0, 1+6+3)
	w.literal(0, 1) // no loop filter deltas
	w.literal(uint32(h.partitions), 2)
	w.literal(uint32(h.quantizer), 7)
	w.literal(0, 5) // no deltas of the other quantisers
	if h.key {
		w.literal(1, 1) // keep the probabilities
	} else {
		w.literal(0, 2)                              // golden and altref frames stay,
		w.literal(uint32(b2u(h.keep[refGolden])), 2) // or become the last frame before this one
		w.literal(uint32(b2u(h.keep[refAlt])), 2)
		w.literal(0, 2) // sign biases
		w.literal(1, 1) // keep the probabilities
		w.literal(1, 1) // this frame becomes the last frame
	}
	h.tokens.adapt(w, probs)
	w.literal(1, 1) // macroblocks without coefficients are skipped
	w.literal(uint32(h.probSkip), 8)
	if h.key {
		return
	}
	w.literal(uint32(h.probInter), 8)
	w.literal(uint32(h.probLast), 8)
	w.literal(uint32(h.probGolden), 8)
	w.literal(0, 2) // intra mode probabilities stay
	for i := range vectorUpdateProbs {
		for _, p := range vectorUpdateProbs[i] {
			w.put(0, p)
		}
	}
}

// writeSegments writes the quantisers of segments and the probabilities of their map (RFC
// 6386, 9.3).
func (h *frameHeader) writeSegments(w *boolWriter) {
	if h.segments == nil {
		w.literal(0, 1)
		return
	}
	w.literal(0b111, 3) // on, with a map and data
	w.literal(1, 1)     // absolute values
	for i := range 4 {
		q := 0
		if i < len(h.segments) {
			q = h.segments[i]
		}
		w.signed(q, 7)
	}
	w.literal(0, 4) // no loop filter levels
	for _, p := range h.segmentMap {
		w.literal(1, 1)
		w.literal(uint32(p), 8)
	}
}

// startCode precedes the size in key frames (RFC 6386, 9.1).
var startCode = [3]byte{0x9d, 0x01, 0x2a}

// appendTag appends the uncompressed start of a frame (RFC 6386, 9.1).
func appendTag(dst []byte, key bool, first, width, height int) []byte {
	tag := uint32(first)<<5 | 1<<4 // to be shown, version 0
	if !key {
		tag |= 1
	}
	dst = append(dst, byte(tag), byte(tag>>8), byte(tag>>16))
	if key {
		dst = append(dst, startCode[:]...)
		dst = append(dst, byte(width), byte(width>>8), byte(height), byte(height>>8))
	}
	return dst
}
