package vp8screen

import "encoding/binary"

// copySquare copies n rows of n samples, 8 or 16.
func copySquare(dst []byte, src []byte, stride, n int) {
	for y := range n {
		d, s := dst[y*stride:], src[y*stride:]
		binary.LittleEndian.PutUint64(d, binary.LittleEndian.Uint64(s))
		if n == 16 {
			binary.LittleEndian.PutUint64(d[8:], binary.LittleEndian.Uint64(s[8:]))
		}
	}
}

func (e *Encoder) copyFrom(f *Frame, x, y int) {
	luma, uv := y*16*e.next.YStride+x*16, y*8*e.next.UVStride+x*8
	copySquare(e.next.Y[luma:], f.Y[luma:], e.next.YStride, 16)
	copySquare(e.next.U[uv:], f.U[uv:], e.next.UVStride, 8)
	copySquare(e.next.V[uv:], f.V[uv:], e.next.UVStride, 8)
}

// predictWhole writes the prediction of the macroblock by a vector that points into the
// frame.
func (w *worker) predictWhole(v vector) {
	e := w.e
	from := w.luma + int(v.y>>2)*e.ref.YStride + int(v.x>>2)
	copySquare(e.next.Y[w.luma:], e.ref.Y[from:], e.next.YStride, 16)
	w.predictChromaBlock(0, 0, 8, v)
}

// predictChromaBlock writes the prediction of n by n samples of both chroma planes, at x, y
// in the macroblock. In these planes the vector is in eighths (RFC 6386, 18).
func (w *worker) predictChromaBlock(x, y, n int, v vector) {
	e, stride := w.e, w.e.ref.UVStride
	at := w.uv + y*stride + x
	px, py := w.x*8+x+int(v.x>>3), w.y*8+y+int(v.y>>3)
	fx, fy := int(v.x&7), int(v.y&7)
	if fx|fy == 0 && px >= 0 && py >= 0 && px+n <= stride && py+n <= e.rows*8 {
		from := py*stride + px
		if n == 8 {
			copySquare(e.next.U[at:], e.ref.U[from:], stride, 8)
			copySquare(e.next.V[at:], e.ref.V[from:], stride, 8)
			return
		}
		for i := range n {
			copy(e.next.U[at+i*stride:at+i*stride+n], e.ref.U[from+i*stride:])
			copy(e.next.V[at+i*stride:at+i*stride+n], e.ref.V[from+i*stride:])
		}
		return
	}
	w.window(e.ref.U, px, py, n)
	w.filter(e.next.U[at:], stride, n, fx, fy)
	w.window(e.ref.V, px, py, n)
	w.filter(e.next.V[at:], stride, n, fx, fy)
}

// The filters need a window around a block of at most 8 samples: two before it and three
// behind it.
const (
	windowStride = 16
	windowSize   = 13
)

// window loads the window of a block at px, py. Samples repeat beyond the edges of the plane
// (RFC 6386, 5).
func (w *worker) window(p []byte, px, py, n int) {
	stride, height := w.e.ref.UVStride, w.e.rows*8
	px, py, n = px-2, py-2, n+5
	if px >= 0 && py >= 0 && px+n <= stride && py+n <= height {
		for i := range n {
			copy(w.win[i*windowStride:i*windowStride+n], p[(py+i)*stride+px:])
		}
		return
	}
	for i := range n {
		row := p[max(0, min(height-1, py+i))*stride:]
		for k := range n {
			w.win[i*windowStride+k] = row[max(0, min(stride-1, px+k))]
		}
	}
}

// sixTaps are the filters for every eighth of a sample (RFC 6386, 18.3).
var sixTaps = [8][6]int32{
	{0, 0, 128, 0, 0, 0},
	{0, -6, 123, 12, -1, 0},
	{2, -11, 108, 36, -8, 1},
	{0, -9, 93, 50, -6, 0},
	{3, -16, 77, 77, -16, 3},
	{0, -6, 50, 93, -9, 0},
	{1, -8, 36, 108, -11, 2},
	{0, -1, 12, 123, -6, 0},
}

func (w *worker) filter(dst []byte, stride, n, fx, fy int) {
	rows := w.win[:(n+5)*windowStride]
	if fx != 0 {
		t := &sixTaps[fx]
		for y := range n + 5 {
			r := rows[y*windowStride : y*windowStride+n+5]
			for x := range n {
				s := r[x : x+6 : x+6]
				// No later sum reads the overwritten sample.
				r[x] = clamp((int32(s[0])*t[0] + int32(s[1])*t[1] + int32(s[2])*t[2] +
					int32(s[3])*t[3] + int32(s[4])*t[4] + int32(s[5])*t[5] + 64) >> 7)
			}
		}
	} else {
		rows = w.win[2:]
	}
	t := &sixTaps[fy]
	for y := range n {
		d := dst[y*stride : y*stride+n]
		if fy == 0 {
			copy(d, rows[(y+2)*windowStride:])
			continue
		}
		r := rows[y*windowStride:]
		for x := range d {
			d[x] = clamp((int32(r[x])*t[0] + int32(r[x+windowStride])*t[1] + int32(r[x+2*windowStride])*t[2] +
				int32(r[x+3*windowStride])*t[3] + int32(r[x+4*windowStride])*t[4] + int32(r[x+5*windowStride])*t[5] + 64) >> 7)
		}
	}
}

func (w *worker) inside(v vector) bool {
	x, y := w.x*16+int(v.x>>2), w.y*16+int(v.y>>2)
	return x >= 0 && y >= 0 && x+16 <= w.e.cols*16 && y+16 <= w.e.rows*16
}

func (w *worker) distanceAt(v vector) int {
	e := w.e
	from := w.luma + int(v.y>>2)*e.ref.YStride + int(v.x>>2)
	return planeDistance(w.src.Y[w.luma:], w.src.YStride, e.ref.Y[from:], e.ref.YStride, 16)
}

// chooseVector returns the vector with the least cost.
func (w *worker) chooseVector() (v vector, cost int) {
	cost = w.distanceAt(vector{})
	if cost == 0 {
		return v, cost
	}
	try := func(c vector) {
		if c == v || c == (vector{}) || !w.inside(c) {
			return
		}
		if d := w.distanceAt(c) + w.q.bitPrice()*4>>8; d < cost {
			v, cost = c, d
		}
	}
	at := w.y*w.e.cols + w.x
	if w.x > 0 && w.e.info[at-1].mode == interWhole {
		try(w.e.info[at-1].vector)
	}
	if w.y > 0 && w.e.info[at-w.e.cols].mode == interWhole {
		try(w.e.info[at-w.e.cols].vector)
	}
	for i := range w.e.motion {
		if c, ok := w.touches(&w.e.motion[i]); ok {
			try(c)
		}
	}
	if cost > w.q.similar {
		v, cost = w.search(v, cost)
	}
	if v != (vector{}) {
		if c := w.e.vectorContext(w.x, w.y); !c.codable(v) {
			return vector{}, w.distanceAt(vector{})
		}
	}
	return v, cost
}

// strangerPart is the factor by which a macroblock outside of moved regions must be closer to its
// prediction to be copied without coefficients.
const strangerPart = 4

// known reports whether a region of the macroblock moved by v.
func (w *worker) known(v vector) bool {
	for i := range w.e.motion {
		if m, ok := w.touches(&w.e.motion[i]); ok && m == v {
			return true
		}
	}
	return false
}

// search looks for a vector with a lower cost around v, in ever smaller steps.
func (w *worker) search(v vector, cost int) (vector, int) {
	price := w.q.bitPrice() * 16 >> 8
	for step := int16(8 * 4); step >= 4; step /= 2 {
		for range 2 {
			at := v
			for _, d := range [...]vector{{-step, 0}, {step, 0}, {0, -step}, {0, step}} {
				c := vector{at.x + d.x, at.y + d.y}
				if !w.inside(c) {
					continue
				}
				if d := w.distanceAt(c) + price; d < cost {
					v, cost = c, d
				}
			}
			if v == at {
				break
			}
		}
	}
	return v, cost
}

// codeChanged codes a macroblock of an inter frame. It reports whether that is lossless.
func (w *worker) codeChanged(info *blockInfo) (exact bool) {
	v, cost := w.chooseVector()
	*info = blockInfo{mode: interWhole, vector: v}
	if cost > w.q.similar {
		if info.ref, cost = w.tryStored(cost); info.ref != refLast {
			v, info.vector = vector{}, vector{}
		}
	}
	if cost > w.q.similar {
		split := w.chooseSplit(cost)
		if w.codeIntra(info, min(cost, split)) {
			info.ref, info.vector = refLast, vector{}
			return false
		}
		if split < cost {
			w.codeSplit(info, split)
			return false
		}
	}
	similar := w.q.similar
	if !w.known(v) {
		similar /= strangerPart
	}
	if info.ref == refLast {
		w.predictWhole(v)
	} else {
		w.e.copyFrom(w.e.store.frames[info.ref], w.x, w.y)
		w.stats.stored[info.ref]++
	}
	if v != (vector{}) || info.ref != refLast {
		w.stats.moved++
		if cost <= similar && w.chromaDistance() <= w.q.similar/2 {
			info.skip = true
			return false
		}
	}
	luma := w.codeLuma()
	chroma := w.codeChroma()
	info.skip = !luma && !chroma
	return cost == 0 && info.skip
}

func (w *worker) chromaDistance() int {
	stride := w.e.next.UVStride
	return planeDistance(w.src.U[w.uv:], stride, w.e.next.U[w.uv:], stride, 8) +
		planeDistance(w.src.V[w.uv:], stride, w.e.next.V[w.uv:], stride, 8)
}

// codeAgain refines a macroblock that has not changed.
func (w *worker) codeAgain(info *blockInfo) {
	*info = unchanged
	w.predictWhole(vector{})
	luma := w.codeLuma()
	chroma := w.codeChroma()
	info.skip = !luma && !chroma
	w.stats.refined++
}
