package vp8screen

// bitPrice returns how much absolute difference of samples a bit is worth at the quantiser,
// in 1/256: about a sixth of its step.
func (q *quantizer) bitPrice() int { return int(q.luma.ac.size) * 256 / 6 }

// modeCosts are the prices of modes in 1/256 bits.
type modeCosts [5]int

func pathCost(p treePath, probs []uint8) (sum int) {
	for _, s := range p {
		if s.bit == 0 {
			sum += int(costs[probs[s.prob]])
		} else {
			sum += int(costs[256-int(probs[s.prob])])
		}
	}
	return sum
}

var keyModeCosts, interModeCosts = func() (k, i modeCosts) {
	for m := range k {
		k[m], i[m] = pathCost(keyModePaths[m], keyModeProbs), pathCost(modePaths[m], defaultModeProbs)
	}
	return k, i
}()

// subModeCosts has the prices of sub-block modes in key frames, by the modes above and to the
// left. interSubCosts has the prices in other frames.
var subModeCosts, interSubCosts = func() (k [subModes][subModes][subModes]int32, n [subModes]int32) {
	for m := range n {
		n[m] = int32(pathCost(subPaths[m], interSubModeProbs))
		for a := range k {
			for l := range k[a] {
				k[a][l][m] = int32(pathCost(subPaths[m], keySubModeProbs[a][l][:]))
			}
		}
	}
	return k, n
}()

// modeDistances returns the distance of each whole mode from the samples at the start of p.
// TM_PRED is -1 if another mode fits well.
func (e *edge) modeDistances(p []byte, stride int) (d [4]int) {
	n := e.size
	e.fillFlat(e.scratch[:], 0, e.dc())
	d[predDC] = planeDistance(p, stride, e.scratch[:], 0, n)
	d[predV] = planeDistance(p, stride, e.above[:], 0, n)
	e.fill(e.scratch[:], 16, predH)
	d[predH] = planeDistance(p, stride, e.scratch[:], 16, n)
	d[predTM] = -1
	if min(d[predDC], d[predV], d[predH]) > n*n/4 {
		e.fill(e.scratch[:], 16, predTM)
		d[predTM] = planeDistance(p, stride, e.scratch[:], 16, n)
	}
	return d
}

// best returns the mode with the least distance plus price.
func best(d [4]int, prices *modeCosts, bitPrice int) (mode uint8, cost int) {
	cost = -1
	for m, v := range d {
		if v < 0 {
			continue
		}
		v += prices[m] * bitPrice >> 16
		if cost < 0 || v < cost {
			mode, cost = uint8(m), v
		}
	}
	return mode, cost
}

func (w *worker) chooseLuma(prices *modeCosts) (mode uint8, cost int) {
	w.edge.load(w.e.next.Y, w.e.next.YStride, w.x, w.y, 16)
	d := w.edge.modeDistances(w.src.Y[w.luma:], w.src.YStride)
	return best(d, prices, w.q.bitPrice())
}

// chromaCosts are the prices of chroma modes, first in inter frames, then in key frames.
var chromaCosts = func() (c [2]modeCosts) {
	for m := range chromaPaths {
		c[0][m], c[1][m] = pathCost(chromaPaths[m], defaultChromaProb), pathCost(chromaPaths[m], keyChromaProbs)
	}
	return c
}()

// predictChroma writes the prediction by the best mode for chroma.
func (w *worker) predictChroma() (mode uint8) {
	u, v := &w.edge, &w.edgeV
	stride := w.e.next.UVStride
	u.load(w.e.next.U, stride, w.x, w.y, 8)
	v.load(w.e.next.V, stride, w.x, w.y, 8)
	d := u.modeDistances(w.src.U[w.uv:], stride)
	o := v.modeDistances(w.src.V[w.uv:], stride)
	for m := range d {
		if d[m] >= 0 && o[m] >= 0 {
			d[m] += o[m]
		} else {
			d[m] = -1
		}
	}
	mode, _ = best(d, &chromaCosts[b2u(w.e.key)], w.q.bitPrice())
	u.fill(w.e.next.U[w.uv:], stride, mode)
	v.fill(w.e.next.V[w.uv:], stride, mode)
	return mode
}

// codeIntra codes the macroblock without other frames. It returns false, and codes nothing, if
// that costs limit or more.
func (w *worker) codeIntra(info *blockInfo, limit int) bool {
	prices := &interModeCosts
	if w.e.key {
		prices = &keyModeCosts
	}
	mode, cost := w.chooseLuma(prices)
	sub := false
	if least := w.q.bitPrice() * 32 >> 8; cost > least && w.afford(subPrice) {
		cost, sub = w.chooseSub(min(cost, limit), prices[predSub])
	}
	if cost >= limit {
		return false
	}
	info.mode = mode
	any := false
	if sub {
		info.mode = predSub
		any = w.storeSub()
	} else {
		w.edge.fill(w.e.next.Y[w.luma:], w.e.next.YStride, mode)
		any = w.codeLuma()
	}
	info.chroma = w.predictChroma()
	if w.codeChroma() {
		any = true
	}
	info.skip = !any
	w.stats.intra++
	return true
}
