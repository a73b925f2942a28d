package vp8screen

import "image"

// Dirty says which macroblocks of a frame may have changed since the last
// [Encoder.Encode]. None of its methods allocates.
type Dirty struct {
	// Cols and Rows are the size of the map in macroblocks.
	Cols, Rows int
	// Blocks holds one byte for each macroblock, row by row: zero for one that
	// is unchanged.
	Blocks []byte
}

// NewDirty returns a map for a frame of the given visible size, in which no
// macroblock is dirty.
func NewDirty(width, height int) *Dirty {
	cols, rows := macroblocks(width), macroblocks(height)
	return &Dirty{Cols: cols, Rows: rows, Blocks: make([]byte, cols*rows)}
}

// Set marks one macroblock.
func (d *Dirty) Set(col, row int) { d.Blocks[row*d.Cols+col] = 1 }

// Get says whether a macroblock is marked.
func (d *Dirty) Get(col, row int) bool { return d.Blocks[row*d.Cols+col] != 0 }

// SetRect marks every macroblock that r, in pixels, touches. What lies outside
// of the map is ignored.
func (d *Dirty) SetRect(r image.Rectangle) {
	r = r.Intersect(image.Rect(0, 0, d.Cols*mbSize, d.Rows*mbSize))
	if r.Empty() {
		return
	}
	c0, c1 := r.Min.X/mbSize, macroblocks(r.Max.X)
	for row := r.Min.Y / mbSize; row < macroblocks(r.Max.Y); row++ {
		mark(d.Blocks[row*d.Cols:][c0:c1])
	}
}

// Add marks what is marked in a map of the same size.
func (d *Dirty) Add(other *Dirty) {
	for i, b := range other.Blocks[:len(d.Blocks)] {
		d.Blocks[i] |= b
	}
}

// All marks every macroblock.
func (d *Dirty) All() { mark(d.Blocks) }

// Clear marks every macroblock as unchanged.
func (d *Dirty) Clear() { clear(d.Blocks) }

// Any says whether a macroblock is marked.
func (d *Dirty) Any() bool {
	for _, b := range d.Blocks {
		if b != 0 {
			return true
		}
	}
	return false
}

// Count returns how many macroblocks are marked.
func (d *Dirty) Count() int {
	n := 0
	for _, b := range d.Blocks {
		if b != 0 {
			n++
		}
	}
	return n
}

func mark(blocks []byte) {
	for i := range blocks {
		blocks[i] = 1
	}
}
