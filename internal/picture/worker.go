package picture

import (
	"image"

	"github.com/klauspost/compress/flate"
)

// worker has the buffers of a goroutine that makes strips.
type worker struct {
	epoch  uint64
	copied []byte   // rows with an overlay on them
	scaled []byte   // rows scaled vertically
	sums   []uint64 // of a row that is being scaled
	raw    []byte   // rows in the form of a format
	out    output
	screen *flate.Writer
	photo  *flate.Writer

	shown    []uint32 // pixels for lossless
	lossless *lossless
}

type piece struct {
	data  []byte // PNG: an IDAT chunk; JPEG: entropy coded data; WebP: a bit string
	adler uint32 // PNG: of the filtered rows
	raw   int    // PNG: their size

	// WebP:
	codes              []byte // the bit string of the prefix codes
	codeBits, dataBits int
	predictor          int
}

func (p *piece) size() int { return len(p.data) + len(p.codes) }

func (w *worker) piece(l *layout, j *job, i int) (*piece, error) {
	r := w.rows(l, j, i)
	switch l.format {
	case JPEG:
		return w.jpegPiece(r, l.quality)
	case WebP:
		return w.webpPiece(r, i == 0), nil
	case PNG:
	}
	return w.pngPiece(r)
}

// output collects the output of a compressor. Because it has WriteByte and Flush, image/jpeg
// does not buffer.
type output struct{ b []byte }

func (o *output) Write(p []byte) (int, error) {
	o.b = append(o.b, p...)
	return len(p), nil
}

func (o *output) WriteByte(c byte) error {
	o.b = append(o.b, c)
	return nil
}

func (o *output) Flush() error { return nil }

// grow returns the first n bytes of *b. It reallocates *b if it is too short.
func grow(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	return (*b)[:n]
}

// keepable is how much memory idle workers may hold together, without their deflate
// compressors.
const keepable = 8 << 20

func (w *worker) size() int {
	n := cap(w.copied) + cap(w.scaled) + 8*cap(w.sums) + cap(w.raw) + cap(w.out.b) + 4*cap(w.shown)
	if l := w.lossless; l != nil {
		n += 4*cap(l.pixels) + 8*cap(l.tokens) + 4*len(l.head) + 4*cap(l.before)
	}
	return n
}

// shrink frees the memory that size counts.
func (w *worker) shrink() {
	w.copied, w.scaled, w.sums, w.raw, w.out.b = nil, nil, nil, nil, nil
	w.shown, w.lossless = nil, nil
}

// rows returns the pixels for strip i, with overlay and scale. They are valid until the next
// call and may belong to the image.
func (w *worker) rows(l *layout, j *job, i int) rows {
	r := l.source(i)
	src := rows{
		pix:    j.img.Pix[r.Min.Y*j.img.Stride+4*r.Min.X:],
		stride: j.img.Stride, width: r.Dx(), height: r.Dy(),
	}
	if j.in(r) != (overlayKey{}) {
		src = w.withOverlay(j, src, r)
	}
	y0, y1 := l.needed(i)
	return w.scale(&l.scale, src, y0, y1)
}

func (w *worker) withOverlay(j *job, src rows, r image.Rectangle) rows {
	dst := rows{stride: 4 * src.width, width: src.width, height: src.height}
	dst.pix = grow(&w.copied, dst.stride*dst.height)
	for y := range src.height {
		copy(dst.pix[y*dst.stride:][:dst.stride], src.pix[y*src.stride:])
	}
	j.draw(dst.pix, dst.stride, r)
	return dst
}
