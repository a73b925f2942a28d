package vp8screen

// writeModes writes the prediction of every macroblock (RFC 6386, 19.3).
func (e *Encoder) writeModes(w *boolWriter, h *frameHeader) {
	if !e.key {
		e.prepareUnchanged(h)
	}
	for y := range e.rows {
		if !e.key && !e.busy[y] && (y == 0 || !e.busy[y-1]) {
			e.writeUnchanged(w, y)
			continue
		}
		for x := range e.cols {
			e.writeMode(w, h, x, y)
		}
	}
}

func (e *Encoder) writeMode(w *boolWriter, h *frameHeader, x, y int) {
	info := &e.info[y*e.cols+x]
	if h.segments != nil {
		w.segment(info.segment, &h.segmentMap)
	}
	w.putBool(info.skip, h.probSkip)
	if h.key {
		w.path(keyModePaths[info.mode], keyModeProbs)
		if info.mode == predSub {
			e.writeSubModes(w, x, y)
		}
		w.path(chromaPaths[info.chroma], keyChromaProbs)
		return
	}
	w.putBool(info.inter(), h.probInter)
	if info.inter() {
		w.reference(info.ref, h)
		c := e.vectorContext(x, y)
		if info.mode == interSplit {
			e.writeSplit(w, &c, x, y)
		} else {
			w.vectorMode(&c, info.vector)
		}
		return
	}
	w.path(modePaths[info.mode], defaultModeProbs)
	if info.mode == predSub {
		for _, m := range e.subs[y*e.cols+x] {
			w.path(subPaths[m], interSubModeProbs)
		}
	}
	w.path(chromaPaths[info.chroma], defaultChromaProb)
}

// writeSubModes writes the modes of sub-blocks of a key frame, each in the context of its
// neighbours (RFC 6386, 11.3).
func (e *Encoder) writeSubModes(w *boolWriter, x, y int) {
	above, left := e.subNeighbours(x, y)
	for b, m := range e.subs[y*e.cols+x] {
		w.path(subPaths[m], keySubModeProbs[above[b&3]][left[b>>2]][:])
		above[b&3], left[b>>2] = m, m
	}
}

// writeUnchanged writes a row of unchanged macroblocks below another one.
func (e *Encoder) writeUnchanged(w *boolWriter, y int) {
	// The weights of the neighbours (RFC 6386, 16.3).
	first, other := 1, 2
	if y == 0 {
		first, other = 0, 1
	}
	w.repeat(&e.still[first], 1)
	w.repeat(&e.still[other], e.cols-1)
}

// prepareUnchanged prepares the symbols of unchanged macroblocks that have no, one or three
// unchanged neighbours.
func (e *Encoder) prepareUnchanged(h *frameHeader) {
	for i, weight := range [...]int{0, 2, 5} {
		s := e.symbols[i][:0]
		if h.segments != nil {
			s = append(s, symbol{0, h.segmentMap[0]}, symbol{0, h.segmentMap[1]})
		}
		s = append(s, symbol{1, h.probSkip}, symbol{1, h.probInter}, symbol{0, h.probLast}, symbol{0, vectorModeProbs[weight][0]})
		e.still[i].prepare(s)
	}
}

// reference writes the reference frame of a macroblock (RFC 6386, 16.2).
func (w *boolWriter) reference(ref uint8, h *frameHeader) {
	if ref == refLast {
		w.put(0, h.probLast)
		return
	}
	w.put(1, h.probLast)
	w.put(uint32(ref-refGolden), h.probGolden)
}

// segment writes the number of a segment (RFC 6386, 10).
func (w *boolWriter) segment(s uint8, probs *[3]uint8) {
	w.put(uint32(s>>1), probs[0])
	w.put(uint32(s&1), probs[1+s>>1])
}
