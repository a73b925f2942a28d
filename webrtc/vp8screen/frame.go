package vp8screen

import (
	"fmt"
	"image"
	"slices"

	"github.com/deskhand/deskhand/internal/i420"
)

// mbSize is the width and height of a macroblock in luma. It has half of it in chroma (RFC
// 6386, 2).
const mbSize = 16

// A Frame is a picture in the colour format of VP8 (I420): luma, and chroma of half the width
// and height. The planes are padded to whole macroblocks of 16x16 luma pixels. The padding
// repeats the last visible column and row.
type Frame struct {
	// Width and Height are the visible size in pixels.
	Width, Height int
	// Y, U and V are the planes, rows from top to bottom.
	Y, U, V []byte
	// YStride and UVStride are the distances between rows in bytes.
	YStride, UVStride int

	edge [2][4 * mbSize]byte // two rows of a macroblock that crosses the right edge, in BGRX
}

// NewFrame returns a black frame of the given visible size.
func NewFrame(width, height int) *Frame {
	cols, rows := macroblocks(width), macroblocks(height)
	f := &Frame{Width: width, Height: height, YStride: cols * mbSize, UVStride: cols * mbSize / 2}
	n := cols * rows * mbSize * mbSize / 4
	f.Y, f.U, f.V = make([]byte, 4*n), make([]byte, n), make([]byte, n)
	for i := range f.Y {
		f.Y[i] = 16
	}
	for i := range f.U {
		f.U[i], f.V[i] = 128, 128
	}
	return f
}

func macroblocks(n int) int { return (n + mbSize - 1) / mbSize }

// Bounds returns the visible rectangle.
func (f *Frame) Bounds() image.Rectangle { return image.Rect(0, 0, f.Width, f.Height) }

// SetBGRX copies the rectangle r of a picture into the frame. It reports whether the frame
// has changed, and marks the macroblocks that have changed in dirty, unless that is nil.
//
// pix is the whole picture, of the frame's size, with four bytes per pixel: blue, green, red
// and a byte that is ignored. A row begins every stride bytes. r is cut to the frame. It is
// extended to whole macroblocks horizontally and to even rows vertically, so pix must be
// current there. SetBGRX does not allocate. It panics if pix is too short.
func (f *Frame) SetBGRX(pix []byte, stride int, r image.Rectangle, dirty *Dirty) bool {
	r = r.Intersect(f.Bounds())
	if r.Empty() {
		return false
	}
	if need := (f.Height-1)*stride + 4*f.Width; stride < 4*f.Width || len(pix) < need {
		panic(fmt.Sprintf("vp8screen: %d bytes with a stride of %d are no picture of %dx%d pixels", len(pix), stride, f.Width, f.Height))
	}
	c0, c1 := r.Min.X/mbSize, macroblocks(r.Max.X)
	different := false
	var buffer [maxColumns]byte
	changed := buffer[:c1-c0]
	for y := r.Min.Y &^ 1; y < r.Max.Y; {
		row := y / mbSize
		end := min(r.Max.Y, (row+1)*mbSize)
		clear(changed)
		for ; y < end; y += 2 {
			f.setRows(pix, stride, y, c0, c1, changed)
		}
		if y >= f.Height {
			f.padBelow(c0, c1)
		}
		for i, c := range changed {
			if c == 0 {
				continue
			}
			different = true
			if dirty != nil {
				dirty.Set(c0+i, row)
			}
		}
	}
	return different
}

// maxColumns is how many macroblocks a row may have.
const maxColumns = (MaxSize + mbSize - 1) / mbSize

// setRows converts two rows of the macroblocks from column c0 up to c1. It sets the elements
// of changed for macroblocks that have changed.
func (f *Frame) setRows(pix []byte, stride, y, c0, c1 int, changed []byte) {
	below := min(y+1, f.Height-1)
	whole := min(c1, f.Width/mbSize)
	if n := whole - c0; n > 0 {
		x := c0 * mbSize
		f.convert(pix[y*stride+4*x:], pix[below*stride+4*x:], x, y, changed[:n])
	}
	if c1 == whole {
		return
	}
	// The last macroblock crosses the right edge.
	x := whole * mbSize
	n := 4 * (f.Width - x)
	for i, source := range [2]int{y, below} {
		e := &f.edge[i]
		copy(e[:n], pix[source*stride+4*x:])
		for j := n; j < len(e); j += 4 {
			copy(e[j:j+4], e[n-4:n])
		}
	}
	f.convert(f.edge[0][:], f.edge[1][:], x, y, changed[whole-c0:])
}

// convert writes two rows of len(changed) macroblocks at x, y.
func (f *Frame) convert(top, bottom []byte, x, y int, changed []byte) {
	n := len(changed)
	at, chroma := y*f.YStride+x, y/2*f.UVStride+x/2
	i420.Rows(top[:64*n], bottom[:64*n], f.Y[at:][:16*n], f.Y[at+f.YStride:][:16*n],
		f.U[chroma:][:8*n], f.V[chroma:][:8*n], changed)
}

// padBelow repeats the last row of samples to the end of the macroblocks from column c0 up to
// c1.
func (f *Frame) padBelow(c0, c1 int) {
	pad := func(plane []byte, stride, height, x0, x1 int) {
		last := plane[(height-1)*stride:][x0:x1]
		for y := height; y*stride < len(plane); y++ {
			copy(plane[y*stride+x0:], last)
		}
	}
	// With an odd height, setRows has written one row of the padding.
	height := (f.Height + 1) &^ 1
	pad(f.Y, f.YStride, height, c0*mbSize, c1*mbSize)
	pad(f.U, f.UVStride, height/2, c0*mbSize/2, c1*mbSize/2)
	pad(f.V, f.UVStride, height/2, c0*mbSize/2, c1*mbSize/2)
}

// CopyDirty copies the macroblocks that dirty marks from a frame of the same size. It keeps
// the last encoded frame for a [ScrollFinder] without copying all of it.
func (f *Frame) CopyDirty(from *Frame, dirty *Dirty) {
	for row := range dirty.Rows {
		for c0 := 0; c0 < dirty.Cols; c0++ {
			c1 := c0
			for c1 < dirty.Cols && dirty.Get(c1, row) {
				c1++
			}
			if c1 > c0 {
				copyMacroblocks(f.Y, from.Y, f.YStride, mbSize, row, c0, c1)
				copyMacroblocks(f.U, from.U, f.UVStride, mbSize/2, row, c0, c1)
				copyMacroblocks(f.V, from.V, f.UVStride, mbSize/2, row, c0, c1)
				c0 = c1
			}
		}
	}
}

// copyMacroblocks copies the macroblocks of one row from column c0 up to c1. size is their
// width in this plane.
func copyMacroblocks(to, from []byte, stride, size, row, c0, c1 int) {
	for i := range size {
		at := (row*size+i)*stride + c0*size
		copy(to[at:at+(c1-c0)*size], from[at:])
	}
}

// Dirty marks the macroblocks of a frame that may have changed since the last
// [Encoder.Encode]. Its methods do not allocate. They panic for a column or row outside of the
// map.
type Dirty struct {
	// Cols and Rows are the size of the map in macroblocks.
	Cols, Rows int
	// Blocks has one byte for each macroblock, row by row. Zero: unchanged.
	Blocks []byte
}

// NewDirty returns a map without marks for a frame of the given visible size.
func NewDirty(width, height int) *Dirty {
	cols, rows := macroblocks(width), macroblocks(height)
	return &Dirty{Cols: cols, Rows: rows, Blocks: make([]byte, cols*rows)}
}

// Set marks one macroblock.
func (d *Dirty) Set(col, row int) { d.Blocks[row*d.Cols+col] = 1 }

// Get reports whether a macroblock is marked.
func (d *Dirty) Get(col, row int) bool { return d.Blocks[row*d.Cols+col] != 0 }

// Clear removes all marks.
func (d *Dirty) Clear() { clear(d.Blocks) }

// Any reports whether a macroblock is marked.
func (d *Dirty) Any() bool { return slices.ContainsFunc(d.Blocks, func(b byte) bool { return b != 0 }) }
