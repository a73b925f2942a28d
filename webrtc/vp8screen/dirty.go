package vp8screen

import "image"

// Dirty says which macroblocks of a frame may have changed since the last
// [Encoder.Encode].
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
	cols, rows := (width+15)/16, (height+15)/16
	return &Dirty{Cols: cols, Rows: rows, Blocks: make([]byte, cols*rows)}
}

// SetRect marks every macroblock that r touches. What lies outside of the map
// is ignored.
func (d *Dirty) SetRect(r image.Rectangle) {
	r = r.Intersect(image.Rect(0, 0, d.Cols*16, d.Rows*16))
	if r.Empty() {
		return
	}
	x0, x1 := r.Min.X/16, (r.Max.X+15)/16
	for y := r.Min.Y / 16; y < (r.Max.Y+15)/16; y++ {
		row := d.Blocks[y*d.Cols+x0 : y*d.Cols+x1]
		for i := range row {
			row[i] = 1
		}
	}
}

// Clear marks every macroblock as unchanged.
func (d *Dirty) Clear() { clear(d.Blocks) }

// All marks every macroblock.
func (d *Dirty) All() {
	for i := range d.Blocks {
		d.Blocks[i] = 1
	}
}

// Any says whether a macroblock is marked.
func (d *Dirty) Any() bool {
	for _, b := range d.Blocks {
		if b != 0 {
			return true
		}
	}
	return false
}
