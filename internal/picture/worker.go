package picture

import (
	"image"

	"github.com/klauspost/compress/flate"
)

// worker holds the memory of one goroutine that makes strips.
type worker struct {
	epoch  uint64
	copied []byte   // rows with an overlay on them
	scaled []byte   // rows scaled vertically
	sums   []uint64 // of a row that is being scaled
	raw    []byte   // rows as a format wants them
	out    output
	screen *flate.Writer
	photo  *flate.Writer
}

// output collects what a compressor writes. It is an io.ByteWriter with a
// Flush so that image/jpeg uses it without a buffer in between.
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

// grow returns the first n bytes of *b, which it makes longer when needed.
func grow(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	return (*b)[:n]
}

// keepable is how much memory a waiting worker may hold besides its
// compressors.
const keepable = 4 << 20

func (w *worker) size() int {
	return cap(w.copied) + cap(w.scaled) + 8*cap(w.sums) + cap(w.raw) + cap(w.out.b)
}

// rows returns the pixels of strip i with overlay and scale applied. They are
// valid until the next call; where nothing is applied they are the image's.
func (w *worker) rows(l *layout, j *job, i int) rows {
	r := l.source(i)
	src := rows{
		pix:    j.img.Pix[r.Min.Y*j.img.Stride+4*r.Min.X:],
		stride: j.img.Stride, width: r.Dx(), height: r.Dy(),
	}
	if j.in(r) != (overlayKey{}) {
		src = w.withOverlay(j, src, r)
	}
	y0, y1 := l.strip(i)
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
