package vp8screen

// A vector points from a block to where its prediction is in the last frame, in
// quarters of a luma pixel (RFC 6386, 5). Ours are whole pixels.
type vector struct{ x, y int16 }

// maxVectorPart is the largest difference that can be coded (RFC 6386, 17.1).
const maxVectorPart = 1023

// A blockInfo is what the coding of later macroblocks needs to know of one.
type blockInfo struct {
	mode, chroma uint8
	skip         bool // no coefficients
	segment      uint8
	ref          uint8  // which frame it is predicted from
	vector       vector // of the last sub-block if it is split
}

var unchanged = blockInfo{mode: interWhole, skip: true}

func (b *blockInfo) inter() bool { return b.mode >= interWhole }

// A vectorContext is what the surroundings of a macroblock say about its vector
// (RFC 6386, 16.3).
type vectorContext struct {
	nearest, near, best vector
	counts              [4]uint8
}

// vectorContext looks at the macroblocks above, to the left, and above left.
func (e *Encoder) vectorContext(x, y int) (c vectorContext) {
	var found [4]vector
	last := 0
	look := func(b *blockInfo, weight uint8) {
		switch {
		case !b.inter():
		case b.vector == vector{}:
			c.counts[0] += weight
		case b.vector == found[last] && last > 0:
			c.counts[last] += weight
		default:
			last++
			found[last] = b.vector
			c.counts[last] += weight
		}
	}
	at := y*e.cols + x
	if y > 0 {
		look(&e.info[at-e.cols], 2)
	}
	if x > 0 {
		look(&e.info[at-1], 2)
	}
	if x > 0 && y > 0 {
		look(&e.info[at-e.cols-1], 1)
	}
	if c.counts[3] > 0 && found[3] == found[1] {
		c.counts[1]++
	}
	c.counts[3] = e.splitCount(x, y)
	if c.counts[2] > c.counts[1] {
		c.counts[1], c.counts[2] = c.counts[2], c.counts[1]
		found[1], found[2] = found[2], found[1]
	}
	if c.counts[1] >= c.counts[0] {
		found[0] = found[1]
	}
	// A decoder keeps these near the frame. Ours are: each points into it from a
	// macroblock next to this one, so at most one macroblock out of it from here.
	c.best, c.nearest, c.near = found[0], found[1], found[2]
	return c
}

// splitCount is how many of the neighbours are split, by weight.
func (e *Encoder) splitCount(x, y int) (n uint8) {
	at := y*e.cols + x
	if y > 0 {
		n += 2 * b2u(e.info[at-e.cols].mode == interSplit)
	}
	if x > 0 {
		n += 2 * b2u(e.info[at-1].mode == interSplit)
	}
	if x > 0 && y > 0 {
		n += b2u(e.info[at-e.cols-1].mode == interSplit)
	}
	return n
}

// codable says whether v can be expressed at all.
func (c *vectorContext) codable(v vector) bool {
	dx, dy := int(v.x)-int(c.best.x), int(v.y)-int(c.best.y)
	return max(dx, -dx, dy, -dy) <= maxVectorPart
}

// vectorMode writes which vector the macroblock has (RFC 6386, 16.3).
func (w *boolWriter) vectorMode(c *vectorContext, v vector) {
	probs := func(i int) uint8 { return vectorModeProbs[c.counts[i]][i] }
	if v == (vector{}) {
		w.put(0, probs(0))
		return
	}
	w.put(1, probs(0))
	if v == c.nearest {
		w.put(0, probs(1))
		return
	}
	w.put(1, probs(1))
	if v == c.near {
		w.put(0, probs(2))
		return
	}
	w.put(1, probs(2))
	w.put(0, probs(3))
	w.vector(v, c.best)
}

// vector writes v as its difference from best, vertical part first.
func (w *boolWriter) vector(v, best vector) {
	w.vectorPart(int(v.y)-int(best.y), &vectorProbs[0])
	w.vectorPart(int(v.x)-int(best.x), &vectorProbs[1])
}

// The places of the probabilities in vectorProbs (RFC 6386, 17.1).
const (
	vectorIsLong = iota
	vectorSign
	vectorShort
	vectorLong = vectorShort + 7
)

var shortVectorPaths = [8]treePath{
	{{0, 0}, {1, 0}, {2, 0}},
	{{0, 0}, {1, 0}, {2, 1}},
	{{0, 0}, {1, 1}, {3, 0}},
	{{0, 0}, {1, 1}, {3, 1}},
	{{0, 1}, {4, 0}, {5, 0}},
	{{0, 1}, {4, 0}, {5, 1}},
	{{0, 1}, {4, 1}, {6, 0}},
	{{0, 1}, {4, 1}, {6, 1}},
}

func (w *boolWriter) vectorPart(v int, p *[19]uint8) {
	a := uint32(max(v, -v))
	if a < 8 {
		w.put(0, p[vectorIsLong])
		w.path(shortVectorPaths[a], p[vectorShort:])
	} else {
		w.put(1, p[vectorIsLong])
		for _, bit := range [...]int{0, 1, 2, 9, 8, 7, 6, 5, 4} {
			w.put(a>>bit&1, p[vectorLong+bit])
		}
		if a > 15 {
			w.put(a>>3&1, p[vectorLong+3])
		}
	}
	if a != 0 {
		w.putBool(v < 0, p[vectorSign])
	}
}
