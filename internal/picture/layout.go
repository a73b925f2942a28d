package picture

import "image"

// Strips are compressed independently. More rows per strip compress better,
// fewer mean that less is compressed again when little changed.
const (
	stripRows   = 64
	stripPixels = 32 << 10 // at least, so that narrow pictures have few strips
)

// layout is how the pictures of a view are put together: from strips of equal
// height but the last, each made from some rows of the image alone.
type layout struct {
	view
	rows  int // of the picture in each strip
	count int // of strips
	scale scaler
}

func newLayout(v view) *layout {
	l := &layout{view: v, rows: stripRows}
	for l.rows*v.width < stripPixels && l.rows < v.height {
		l.rows *= 2
	}
	if v.format == JPEG {
		l.rows = jpegStripRows(l.rows, v.width)
	}
	l.count = (v.height + l.rows - 1) / l.rows
	l.scale = newScaler(v.region.Dx(), v.region.Dy(), v.width, v.height)
	return l
}

// strip returns the rows of the picture in strip i.
func (l *layout) strip(i int) (y0, y1 int) {
	return i * l.rows, min((i+1)*l.rows, l.height)
}

// needed returns the rows of the picture which strip i is made from: in a WebP
// pixels are predicted from the row above too.
func (l *layout) needed(i int) (y0, y1 int) {
	y0, y1 = l.strip(i)
	if l.format == WebP {
		y0 = max(y0-1, 0)
	}
	return y0, y1
}

// source returns the part of the image which strip i is made from.
func (l *layout) source(i int) image.Rectangle {
	y0, y1 := l.scale.source(l.needed(i))
	return image.Rect(l.region.Min.X, l.region.Min.Y+y0, l.region.Max.X, l.region.Min.Y+y1)
}
