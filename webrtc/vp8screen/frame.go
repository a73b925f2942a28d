package vp8screen

// A Frame is a picture in the colour format of VP8: full-size luma and chroma
// of half the width and height (I420).
//
// The planes are padded to whole macroblocks of 16x16 luma pixels; the padding
// repeats the last visible column and row.
type Frame struct {
	// Width and Height are the visible size in pixels.
	Width, Height int
	// Y, U and V are the planes, rows from top to bottom.
	Y, U, V []byte
	// YStride and UVStride are the distances between rows in bytes.
	YStride, UVStride int
}

// NewFrame returns a black frame of the given visible size.
func NewFrame(width, height int) *Frame {
	cols, rows := (width+15)/16, (height+15)/16
	f := &Frame{Width: width, Height: height, YStride: cols * 16, UVStride: cols * 8}
	n := cols * rows * 64
	f.Y, f.U, f.V = make([]byte, 4*n), make([]byte, n), make([]byte, n)
	for i := range f.Y {
		f.Y[i] = 16
	}
	for i := range f.U {
		f.U[i], f.V[i] = 128, 128
	}
	return f
}
