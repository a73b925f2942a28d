package vp8screen

import "image"

// A Motion is a region that moved as a whole, by scrolling for example.
type Motion struct {
	// Rect is where the region is now, in luma pixels.
	Rect image.Rectangle
	// DX and DY are how far it moved: what is at p now was at p - (DX, DY) in
	// the frame before.
	DX, DY int
}
