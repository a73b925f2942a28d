package picture

import (
	"encoding/binary"
	"image"
	"math"

	"github.com/disintegration/imaging"
)

// scaler makes rows of a picture from rows of a region. The weights of the vertical step depend
// only on the row, so a strip equals the same rows of a whole picture. imaging does the
// horizontal step.
type scaler struct {
	kind   scaleKind
	width  int // of the picture
	filter imaging.ResampleFilter
	taps   []tap // per row of the picture
}

type scaleKind uint8

const (
	scaleNone scaleKind = iota
	scaleHalf           // exactly one half both ways
	scaleAny
)

// tap has the weights of the source rows from first on. Their sum is weightOne.
type tap struct {
	first   int
	weights []uint16
}

const (
	weightBits = 14
	weightOne  = 1 << weightBits
)

// newScaler makes a scaler for regions and pictures of these sizes. Whole divisors average
// boxes of pixels, which keeps text crisp. For others, boxes would have different numbers of
// pixels, so a triangle filter is used.
func newScaler(sw, sh, dw, dh int) scaler {
	switch {
	case sw == dw && sh == dh:
		return scaler{kind: scaleNone, width: dw}
	case sw == 2*dw && sh == 2*dh:
		return scaler{kind: scaleHalf, width: dw}
	}
	s := scaler{kind: scaleAny, width: dw, filter: imaging.Linear}
	if sw%dw == 0 && sh%dh == 0 {
		s.filter = imaging.Box
	}
	s.taps = newTaps(sh, dh, s.filter)
	return s
}

// newTaps samples the filter for each of dh rows that are made from sh rows.
func newTaps(sh, dh int, filter imaging.ResampleFilter) []tap {
	taps := make([]tap, dh)
	step := float64(sh) / float64(dh)
	stretch := max(step, 1)
	reach := stretch * filter.Support
	var weights []float64
	for y := range taps {
		centre := (float64(y)+0.5)*step - 0.5
		first := max(int(math.Ceil(centre-reach)), 0)
		last := min(int(math.Floor(centre+reach)), sh-1)
		weights = weights[:0]
		var sum float64
		for i := first; i <= last; i++ {
			w := filter.Kernel((float64(i) - centre) / stretch)
			weights = append(weights, w)
			sum += w
		}
		taps[y] = wholeTap(first, weights, sum)
	}
	return taps
}

// wholeTap rounds weights to whole numbers and adds the rounding error to the greatest one.
func wholeTap(first int, weights []float64, sum float64) tap {
	t := tap{first: first, weights: make([]uint16, len(weights))}
	left, most := weightOne, 0
	for i, w := range weights {
		t.weights[i] = uint16(math.Round(w / sum * weightOne))
		left -= int(t.weights[i])
		if w > weights[most] {
			most = i
		}
	}
	t.weights[most] = uint16(int(t.weights[most]) + left)
	for len(t.weights) > 1 && t.weights[len(t.weights)-1] == 0 {
		t.weights = t.weights[:len(t.weights)-1]
	}
	for len(t.weights) > 1 && t.weights[0] == 0 {
		t.first++
		t.weights = t.weights[1:]
	}
	return t
}

// source returns the rows of the region from which rows y0 up to y1 are made.
func (s *scaler) source(y0, y1 int) (int, int) {
	switch {
	case s.kind == scaleHalf:
		return 2 * y0, 2 * y1
	case s.kind == scaleAny:
		last := s.taps[y1-1]
		return s.taps[y0].first, last.first + len(last.weights)
	}
	return y0, y1
}

// rows is a rectangle of BGRX pixels.
type rows struct {
	pix           []byte
	stride        int
	width, height int
}

// scale makes rows y0 up to y1 of the picture from src, the rows that source returns.
func (w *worker) scale(s *scaler, src rows, y0, y1 int) rows {
	switch s.kind {
	case scaleHalf:
		dst := rows{stride: 4 * s.width, width: s.width, height: y1 - y0}
		dst.pix = grow(&w.scaled, dst.stride*dst.height)
		for y := range dst.height {
			halve(dst.pix[y*dst.stride:][:dst.stride], src.pix[2*y*src.stride:], src.pix[(2*y+1)*src.stride:])
		}
		return dst
	case scaleAny:
		return s.horizontal(w.vertical(s, src, y0, y1))
	case scaleNone:
	}
	return src
}

// halve averages boxes of two by two pixels: first pairs in a row, then the two rows, rounding
// up twice. imaging.Box has the same result.
func halve(dst, top, bottom []byte) {
	top, bottom = top[:2*len(dst)], bottom[:2*len(dst)]
	for len(dst) >= 8 {
		a0, a1 := binary.LittleEndian.Uint64(top), binary.LittleEndian.Uint64(top[8:16])
		b0, b1 := binary.LittleEndian.Uint64(bottom), binary.LittleEndian.Uint64(bottom[8:16])
		a := average(a0&0xffffffff|a1<<32, a0>>32|a1&^0xffffffff)
		b := average(b0&0xffffffff|b1<<32, b0>>32|b1&^0xffffffff)
		binary.LittleEndian.PutUint64(dst, average(a, b))
		dst, top, bottom = dst[8:], top[16:], bottom[16:]
	}
	if len(dst) >= 4 {
		a, b := binary.LittleEndian.Uint64(top), binary.LittleEndian.Uint64(bottom)
		binary.LittleEndian.PutUint32(dst, uint32(average(average(a, a>>32), average(b, b>>32))))
	}
}

// average averages the eight bytes of two words, rounding halves up: a|b is the rounded up
// average plus half of the differing bits.
func average(a, b uint64) uint64 {
	return (a | b) - ((a^b)>>1)&0x7f7f7f7f7f7f7f7f
}

// vertical makes opaque rows y0 up to y1 from src, as wide as that.
func (w *worker) vertical(s *scaler, src rows, y0, y1 int) rows {
	dst := rows{stride: 4 * src.width, width: src.width, height: y1 - y0}
	dst.pix = grow(&w.scaled, dst.stride*dst.height)
	base := s.taps[y0].first
	if cap(w.sums) < 2*src.width {
		w.sums = make([]uint64, 2*src.width)
	}
	sums := w.sums[:2*src.width]
	for y := range dst.height {
		t := s.taps[y0+y]
		for i := range sums {
			sums[i] = 1<<(weightBits-1) | 1<<(weightBits-1+32)
		}
		for i, weight := range t.weights {
			accumulate(sums, src.pix[(t.first-base+i)*src.stride:][:dst.stride], uint64(weight))
		}
		normalize(dst.pix[y*dst.stride:][:dst.stride], sums)
	}
	return dst
}

// accumulate adds a weighted row to the sums: blue and red of a pixel to the halves of one sum,
// green to the next one.
func accumulate(sums []uint64, row []byte, weight uint64) {
	for len(row) >= 4 && len(sums) >= 2 {
		p := uint64(binary.LittleEndian.Uint32(row))
		sums[0] += (p&0xff | p&0xff0000<<16) * weight
		sums[1] += (p >> 8 & 0xff) * weight
		sums, row = sums[2:], row[4:]
	}
}

// normalize turns sums into opaque pixels.
func normalize(row []byte, sums []uint64) {
	for len(row) >= 4 && len(sums) >= 2 {
		br, g := sums[0]>>weightBits, sums[1]>>weightBits
		binary.LittleEndian.PutUint32(row, uint32(br&0xff|g&0xff<<8|br>>16&0xff0000|0xff000000))
		sums, row = sums[2:], row[4:]
	}
}

// horizontal scales opaque rows to the width of the picture. The order of colours does not
// matter to imaging.
func (s *scaler) horizontal(src rows) rows {
	if src.width == s.width {
		return src
	}
	m := imaging.Resize(&image.NRGBA{Pix: src.pix, Stride: src.stride, Rect: image.Rect(0, 0, src.width, src.height)},
		s.width, src.height, s.filter)
	return rows{pix: m.Pix, stride: m.Stride, width: s.width, height: src.height}
}
