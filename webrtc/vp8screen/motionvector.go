package vp8screen

// A vector points from a block to its prediction in the last frame, in quarters of a luma
// pixel (RFC 6386, 5). Luma vectors of this encoder are whole pixels.
type vector struct{ x, y int16 }

// maxVectorPart is the largest difference that can be coded (RFC 6386, 17.1).
const maxVectorPart = 1023

// A blockInfo describes a macroblock for the coding of later ones.
type blockInfo struct {
	mode, chroma uint8
	skip         bool // no coefficients
	segment      uint8
	ref          uint8  // reference frame
	vector       vector // of the last sub-block if it is split
}

var unchanged = blockInfo{mode: interWhole, skip: true}

func (b *blockInfo) inter() bool { return b.mode >= interWhole }

// A vectorContext has the vectors of a macroblock's neighbours (RFC 6386, 16.3).
type vectorContext struct {
	nearest, near, best vector
	counts              [4]uint8
}

func (e *Encoder) vectorContext(x, y int) (c vectorContext) {
	var found [4]vector
	last, splits := 0, uint8(0)
	look := func(b *blockInfo, weight uint8) {
		splits += weight * b2u(b.mode == interSplit)
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
	c.counts[3] = splits
	if c.counts[2] > c.counts[1] {
		c.counts[1], c.counts[2] = c.counts[2], c.counts[1]
		found[1], found[2] = found[2], found[1]
	}
	if c.counts[1] >= c.counts[0] {
		found[0] = found[1]
	}
	// Decoders clamp these to the neighbourhood of the frame. Each points into the frame from
	// an adjacent macroblock, so it needs no clamping.
	c.best, c.nearest, c.near = found[0], found[1], found[2]
	return c
}

func (c *vectorContext) codable(v vector) bool {
	dx, dy := int(v.x)-int(c.best.x), int(v.y)-int(c.best.y)
	return max(dx, -dx, dy, -dy) <= maxVectorPart
}

// vectorMode writes the vector of a macroblock (RFC 6386, 16.3).
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

func (w *boolWriter) vector(v, best vector) {
	w.vectorPart(int(v.y)-int(best.y), &vectorProbs[0])
	w.vectorPart(int(v.x)-int(best.x), &vectorProbs[1])
}

// Indices of vectorProbs (RFC 6386, 17.1).
const (
	vectorIsLong = iota
	vectorSign
	vectorShort
	vectorLong = vectorShort + 7
)

func (w *boolWriter) vectorPart(v int, p *[19]uint8) {
	a := uint32(max(v, -v))
	if a < 8 {
		w.put(0, p[vectorIsLong])
		node := uint32(vectorShort) // of a complete tree of three bits
		for n := 2; n >= 0; n-- {
			bit := a >> n & 1
			w.put(bit, p[node])
			node += 1 + bit*(1<<n-1)
		}
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
