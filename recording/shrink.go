package recording

import "image"

// shrinker makes pictures smaller. A pixel is the mean of the area that it covers, so thin
// strokes remain visible.
type shrinker struct {
	across, down []span
	from, to     image.Point // sizes
	sums         []uint32    // of the rows that one row covers
	out          [2][]byte
}

// span is the part of the source that a pixel covers in one direction: the pixels from first
// on, with weights that add up to spanOne.
type span struct {
	first   int
	weights []uint16
}

const (
	spanBits = 12
	spanOne  = 1 << spanBits
)

func newShrinker(from, to image.Point) *shrinker {
	return &shrinker{
		across: newSpans(from.X, to.X), down: newSpans(from.Y, to.Y), from: from, to: to,
		sums: make([]uint32, 4*from.X), out: [2][]byte{make([]byte, 4*to.X), make([]byte, 4*to.X)},
	}
}

func newSpans(from, to int) []span {
	spans := make([]span, to)
	for i := range spans {
		// In units of 1/to of a source pixel, which are exact.
		begin, end := i*from, (i+1)*from
		s := &spans[i]
		s.first = begin / to
		rest := spanOne
		for p := s.first; p*to < end; p++ {
			share := (min((p+1)*to, end) - max(p*to, begin)) * spanOne / from
			share = min(share, rest)
			rest -= share
			s.weights = append(s.weights, uint16(share)) //nolint:gosec // at most spanOne
		}
		s.weights[len(s.weights)/2] += uint16(rest) //nolint:gosec // the rest of rounding
	}
	return spans
}

// reach returns the part of the small picture that shows a rectangle.
func (s *shrinker) reach(r image.Rectangle) image.Rectangle {
	return image.Rect(
		r.Min.X*s.to.X/s.from.X, r.Min.Y*s.to.Y/s.from.Y,
		(r.Max.X*s.to.X+s.from.X-1)/s.from.X, (r.Max.Y*s.to.Y+s.from.Y-1)/s.from.Y,
	).Intersect(image.Rectangle{Max: s.to})
}

// rows returns two rows of the small picture, valid until the next call.
func (s *shrinker) rows(pix []byte, stride, y0, y1 int) (top, bottom []byte) {
	s.row(s.out[0], pix, stride, y0)
	if y1 == y0 {
		return s.out[0], s.out[0]
	}
	s.row(s.out[1], pix, stride, y1)
	return s.out[0], s.out[1]
}

func (s *shrinker) row(out, pix []byte, stride, y int) {
	clear(s.sums)
	for i, w := range s.down[y].weights {
		row := pix[(s.down[y].first+i)*stride:][:len(s.sums)]
		for x, v := range row {
			s.sums[x] += uint32(v) * uint32(w)
		}
	}
	for x, c := range s.across {
		var b, g, r, a uint32
		sums := s.sums[4*c.first:]
		for i, w := range c.weights {
			w, p := uint32(w), sums[4*i:4*i+4]
			b += p[0] >> 4 * w
			g += p[1] >> 4 * w
			r += p[2] >> 4 * w
			a += p[3] >> 4 * w
		}
		const shift, half = 2*spanBits - 4, 1 << (2*spanBits - 5)
		o := out[4*x : 4*x+4]
		o[0], o[1], o[2], o[3] = byte((b+half)>>shift), byte((g+half)>>shift), byte((r+half)>>shift), byte((a+half)>>shift)
	}
}
