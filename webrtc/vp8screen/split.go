package vp8screen

// If the border of a moved region crosses a macroblock, only a part of it has moved. Such a
// macroblock is split: its 16 sub-blocks have their own vectors (RFC 6386, 16.4).

// maxCandidates is how many vectors are tried for the sub-blocks.
const maxCandidates = 4

// The ways to split a macroblock.
const (
	splitRows = iota // upper and lower half
	splitColumns
	splitQuarters
	splitSub
)

var (
	splitPaths = [4]treePath{
		splitRows:     {{0, 1}, {1, 1}, {2, 0}},
		splitColumns:  {{0, 1}, {1, 1}, {2, 1}},
		splitQuarters: {{0, 1}, {1, 0}},
		splitSub:      {{0, 0}},
	}
	// splitFirst has the first sub-block of each part, splitPart the part of each
	// sub-block.
	splitFirst = [4][]uint8{
		{0, 8}, {0, 2}, {0, 2, 8, 10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	}
	splitPart = [3][16]uint8{
		{0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8},
		{0, 0, 2, 2, 0, 0, 2, 2, 0, 0, 2, 2, 0, 0, 2, 2},
		{0, 0, 2, 2, 0, 0, 2, 2, 8, 8, 10, 10, 8, 8, 10, 10},
	}
)

// splitKind returns the simplest split with these vectors.
func splitKind(v *[16]vector) int {
	for kind := range splitPart {
		same := true
		for b, first := range splitPart[kind] {
			same = same && v[b] == v[first]
		}
		if same {
			return kind
		}
	}
	return splitSub
}

// chooseSplit chooses the vector of each sub-block from the moved regions that touch the
// macroblock. It stores them in w.vectors and returns their cost, or limit if that is lower.
func (w *worker) chooseSplit(limit int) int {
	var candidates [maxCandidates]vector
	n := 1 // the first is zero
	for i := range w.e.motion {
		if v, ok := w.touches(&w.e.motion[i]); ok && n < maxCandidates && v != (vector{}) && w.inside(v) {
			candidates[n] = v
			n++
		}
	}
	if n == 1 || !w.afford(splitPrice) {
		return limit
	}
	stride := w.src.YStride
	// The price of a split, and of one vector.
	sum := w.q.bitPrice() * 24 >> 8
	var used [maxCandidates]bool
	for b := range w.vectors {
		at := w.luma + b>>2*4*stride + b&3*4
		source := loadSquare(w.src.Y[at:], stride)
		least, best := int32(1<<30), 0
		for i, v := range candidates[:n] {
			from := at + int(v.y>>2)*stride + int(v.x>>2)
			d := int32(source.distance(loadSquare(w.e.ref.Y[from:], stride)))
			if i > 0 {
				d++ // prefer zero
			}
			if d < least {
				least, best = d, i
			}
		}
		w.vectors[b] = candidates[best]
		used[best] = true
		if sum += int(least); sum >= limit {
			return limit
		}
	}
	c := w.e.vectorContext(w.x, w.y)
	for i, u := range used {
		if u && i > 0 && !c.codable(candidates[i]) {
			return limit
		}
	}
	return sum
}

func (s square) distance(t square) int {
	return lanes(byteDistance(s[0], t[0]) + byteDistance(s[1], t[1]))
}

// touches returns the vector of a region that touches the macroblock.
func (w *worker) touches(m *Motion) (vector, bool) {
	if m.Rect.Min.X >= w.x*16+16 || m.Rect.Max.X <= w.x*16 || m.Rect.Min.Y >= w.y*16+16 || m.Rect.Max.Y <= w.y*16 {
		return vector{}, false
	}
	const most = 1 << 12
	if max(m.DX, -m.DX, m.DY, -m.DY) >= most {
		return vector{}, false
	}
	return vector{int16(-4 * m.DX), int16(-4 * m.DY)}, true
}

func (w *worker) codeSplit(info *blockInfo, cost int) {
	*info = blockInfo{mode: interSplit, vector: w.vectors[15]}
	w.e.vectors[w.y*w.e.cols+w.x] = w.vectors
	w.predictSplit()
	w.stats.moved++
	if cost <= w.q.similar && w.chromaDistance() <= w.q.similar/2 {
		info.skip = true
		return
	}
	w.nonzero[block2] = 0
	luma := w.codeBlocks(w.src.Y[w.luma:], w.e.next.Y[w.luma:], w.e.next.YStride, 0, 16, &w.q.luma)
	chroma := w.codeChroma()
	info.skip = !luma && !chroma
}

// predictSplit writes the prediction by w.vectors.
func (w *worker) predictSplit() {
	e, stride := w.e, w.e.ref.YStride
	for b, v := range w.vectors {
		at := w.luma + b>>2*4*stride + b&3*4
		loadSquare(e.ref.Y[at+int(v.y>>2)*stride+int(v.x>>2):], stride).store(e.next.Y[at:], stride)
	}
	for y := 0; y < 4; y += 2 {
		for x := 0; x < 4; x += 2 {
			// The mean of four vectors, rounded away from zero (RFC 6386, 18).
			var sx, sy int
			for _, b := range [...]int{y*4 + x, y*4 + x + 1, y*4 + x + 4, y*4 + x + 5} {
				sx += int(w.vectors[b].x)
				sy += int(w.vectors[b].y)
			}
			w.predictChromaBlock(2*x, 2*y, 4, vector{quarter(sx), quarter(sy)})
		}
	}
}

func quarter(sum int) int16 {
	if sum < 0 {
		return int16(-((2 - sum) / 4))
	}
	return int16((sum + 2) / 4)
}

func (e *Encoder) writeSplit(w *boolWriter, c *vectorContext, x, y int) {
	w.put(1, vectorModeProbs[c.counts[0]][0])
	w.put(1, vectorModeProbs[c.counts[1]][1])
	w.put(1, vectorModeProbs[c.counts[2]][2])
	w.put(1, vectorModeProbs[c.counts[3]][3])
	v := &e.vectors[y*e.cols+x]
	kind := splitKind(v)
	w.path(splitPaths[kind], splitProbs)
	for _, b := range splitFirst[kind] {
		var left, above vector
		switch {
		case b&3 > 0:
			left = v[b-1]
		case x > 0:
			left = e.vectorOf(y*e.cols+x-1, b+3)
		}
		switch {
		case b > 3:
			above = v[b-4]
		case y > 0:
			above = e.vectorOf((y-1)*e.cols+x, b+12)
		}
		probs := splitRefProb[splitContext(left, above)]
		switch v[b] {
		case left:
			w.put(0, probs[0])
		case above:
			w.put(1, probs[0])
			w.put(0, probs[1])
		case vector{}:
			w.put(1, probs[0])
			w.put(1, probs[1])
			w.put(0, probs[2])
		default:
			w.put(1, probs[0])
			w.put(1, probs[1])
			w.put(1, probs[2])
			w.vector(v[b], c.best)
		}
	}
}

func (e *Encoder) vectorOf(at int, b uint8) vector {
	if e.info[at].mode == interSplit {
		return e.vectors[at][b]
	}
	return e.info[at].vector
}

// splitContext returns the context of a sub-block's vector (RFC 6386, 16.3).
func splitContext(left, above vector) int {
	switch {
	case left == above && left == vector{}:
		return 4
	case left == above:
		return 3
	case above == vector{}:
		return 2
	case left == vector{}:
		return 1
	}
	return 0
}
