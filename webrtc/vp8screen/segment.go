package vp8screen

import (
	"encoding/binary"
	"math/bits"
)

// The segments of a frame, which are groups of macroblocks with a quantiser of
// their own (RFC 6386, 9.3 and 10).
const (
	segmentChanged = iota
	segmentRefined
	segmentText // changed, too, and looks like text
	segments
)

const (
	// textFrom is the index from which text is coded more finely than the rest,
	// because it cannot be read otherwise, and textPart the part of the index.
	textFrom = 40
	textPart = 0.6
	// textPairs is how many of the 224 pairs of samples must be equal for text.
	textPairs = 112
)

// textIndex is the quantiser for text in a frame of index q. When even text has
// to become unreadable, it is that of the rest again.
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

// looksLikeText says whether much of the macroblock is flat to the pixel, as what
// programs draw is, and what cameras see is not.
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

// chooseSegment sets the quantiser of a macroblock that changed.
func (w *worker) chooseSegment() uint8 {
	s := uint8(segmentChanged)
	if q := &w.e.segments; q[segmentText] != q[segmentChanged] && w.looksLikeText() {
		s = segmentText
	}
	w.q = &quantizers[w.e.segments[s]]
	return s
}

// segmentProbs are the probabilities of the map for the counted segments of a
// frame.
func segmentProbs(n *[segments]int, all int) [3]uint8 {
	text := n[segmentText]
	return [3]uint8{
		share(all-text, all),
		share(all-text-n[segmentRefined], max(1, all-text)),
		255,
	}
}
