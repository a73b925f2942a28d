package recording

import (
	"image"
	"math"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/i420"
)

// canvas is the picture that is encoded, without the pointer. Its size does not change during
// a recording: a screen of another size is fitted into it.
type canvas struct {
	width, height int    // even
	planes        []byte // I420: luma, then both chroma planes, without gaps

	region *image.Rectangle // nil: the whole screen
	scale  float64

	screen desktop.Size
	src    image.Rectangle // the visible part of the screen
	dst    image.Rectangle // its place in the picture
	shrink *shrinker       // nil if the scale is 1

	edge    [2][4 * i420.Block]byte
	changed []byte
}

// newCanvas makes a black picture for a screen.
func newCanvas(screen desktop.Size, region *desktop.Rect, scale float64) (*canvas, error) {
	c := &canvas{scale: scale}
	size := image.Pt(screen.Width, screen.Height)
	if region != nil {
		r := image.Rect(region.X, region.Y, region.X+region.Width, region.Y+region.Height)
		if !r.Overlaps(image.Rectangle{Max: size}) {
			return nil, invalid("region", "%dx%d at %d,%d is not on the screen of %dx%d",
				region.Width, region.Height, region.X, region.Y, screen.Width, screen.Height)
		}
		c.region = &r
		size = r.Size()
	}
	size = image.Pt(scaled(size.X, scale), scaled(size.Y, scale))
	if size.X < minSide || size.Y < minSide {
		return nil, invalid("scale", "%v makes a picture of %dx%d; at least %dx%d can be recorded", scale, size.X, size.Y, minSide, minSide)
	}
	c.width, c.height = even(size.X), even(size.Y)
	c.planes = make([]byte, c.width*c.height*3/2)
	c.changed = make([]byte, c.width/i420.Block+1)
	c.blacken()
	return c, nil
}

func even(n int) int { return (n + 1) &^ 1 }

func scaled(n int, scale float64) int { return max(1, int(math.Round(float64(n)*scale))) }

func (c *canvas) blacken() {
	n := c.width * c.height
	for i := range c.planes[:n] {
		c.planes[i] = 16
	}
	for i := range c.planes[n:] {
		c.planes[n+i] = 128
	}
}

// fit places a screen in the picture, in its scale or as small as it must be.
func (c *canvas) fit(screen desktop.Size) {
	c.screen = screen
	all := image.Rect(0, 0, screen.Width, screen.Height)
	c.src = all
	var origin image.Point
	size := image.Pt(scaled(all.Dx(), c.scale), scaled(all.Dy(), c.scale))
	if c.region != nil {
		c.src = all.Intersect(*c.region)
		size = image.Pt(scaled(c.src.Dx(), c.scale), scaled(c.src.Dy(), c.scale))
		off := c.src.Min.Sub(c.region.Min)
		origin = image.Pt(int(float64(off.X)*c.scale), int(float64(off.Y)*c.scale))
	} else {
		if size.X > c.width || size.Y > c.height {
			k := min(float64(c.width)/float64(all.Dx()), float64(c.height)/float64(all.Dy()))
			size = image.Pt(min(scaled(all.Dx(), k), c.width), min(scaled(all.Dy(), k), c.height))
		}
		origin = image.Pt((c.width-size.X)/2, (c.height-size.Y)/2)
	}
	origin = image.Pt(origin.X&^1, origin.Y&^1) // two by two pixels share their chroma
	size = image.Pt(min(size.X, c.width-origin.X), min(size.Y, c.height-origin.Y))
	c.dst = image.Rectangle{Min: origin, Max: origin.Add(size)}
	c.shrink = nil
	if c.src.Empty() {
		c.dst = image.Rectangle{}
	} else if c.src.Size() != size {
		c.shrink = newShrinker(c.src.Size(), size)
	}
}

// draw draws a frame and reports whether the picture has changed.
func (c *canvas) draw(f *desktop.FeedFrame) bool {
	different := false
	if f.Reset || f.Size != c.screen {
		if f.Size != c.screen {
			c.fit(f.Size)
			c.blacken()
			different = true
		}
		return c.update(f, c.src) || different
	}
	for _, r := range f.Changed {
		r := image.Rect(r.X, r.Y, r.X+r.Width, r.Y+r.Height).Intersect(c.src)
		if !r.Empty() && c.update(f, r) {
			different = true
		}
	}
	return different
}

// update converts a rectangle of the screen and reports whether the picture has changed.
func (c *canvas) update(f *desktop.FeedFrame, r image.Rectangle) bool {
	r = r.Sub(c.src.Min)
	if r.Empty() {
		return false
	}
	origin := f.Pix[c.src.Min.Y*f.Stride+4*c.src.Min.X:]
	if c.shrink != nil {
		r = c.shrink.reach(r)
	}
	x0, x1 := r.Min.X&^(i420.Block-1), r.Max.X
	different := false
	last := c.dst.Dy() - 1
	for y := r.Min.Y &^ 1; y < r.Max.Y; y += 2 {
		var top, bottom []byte
		if c.shrink != nil {
			top, bottom = c.shrink.rows(origin, f.Stride, y, min(y+1, last))
		} else {
			top, bottom = origin[y*f.Stride:], origin[min(y+1, last)*f.Stride:]
		}
		if c.convert(top, bottom, y, x0, x1) {
			different = true
		}
	}
	return different
}

// convert writes the rows y and y+1 of the visible part, from column x0, where a block
// begins, up to x1. It reports whether they have changed.
func (c *canvas) convert(top, bottom []byte, y, x0, x1 int) bool {
	n := c.width * c.height
	luma := (c.dst.Min.Y+y)*c.width + c.dst.Min.X + x0
	chroma := (c.dst.Min.Y+y)/2*(c.width/2) + (c.dst.Min.X+x0)/2
	y0, y1 := c.planes[luma:n], c.planes[luma+c.width:n]
	u, v := c.planes[n+chroma:n+n/4], c.planes[n+n/4+chroma:]
	blocks := (min(x1+i420.Block-1, c.dst.Dx()) - x0) / i420.Block
	changed := c.changed[:blocks]
	clear(changed)
	i420.Rows(top[4*x0:][:64*blocks], bottom[4*x0:][:64*blocks], y0[:16*blocks], y1[:16*blocks], u[:8*blocks], v[:8*blocks], changed)
	different := false
	for _, d := range changed {
		different = different || d != 0
	}
	at := i420.Block * blocks
	left := c.dst.Dx() - x0 - at
	if left <= 0 || left >= i420.Block || x0+at >= x1 {
		return different
	}
	// The last block crosses the right edge, where the last pixel is repeated.
	for i, row := range [2][]byte{top, bottom} {
		e := &c.edge[i]
		copy(e[:4*left], row[4*(x0+at):])
		for j := 4 * left; j < len(e); j += 4 {
			copy(e[j:j+4], e[4*left-4:])
		}
	}
	var ly, lu [2][i420.Block]byte
	wide := even(left)
	copy(ly[0][:wide], y0[at:])
	copy(ly[1][:wide], y1[at:])
	copy(lu[0][:wide/2], u[at/2:])
	copy(lu[1][:wide/2], v[at/2:])
	before := [4][i420.Block]byte{ly[0], ly[1], lu[0], lu[1]}
	i420.Rows(c.edge[0][:], c.edge[1][:], ly[0][:], ly[1][:], lu[0][:], lu[1][:], c.changed[:1])
	for i, now := range [4][]byte{ly[0][:wide], ly[1][:wide], lu[0][:wide/2], lu[1][:wide/2]} {
		different = different || string(now) != string(before[i][:len(now)])
	}
	copy(y0[at:], ly[0][:wide])
	copy(y1[at:], ly[1][:wide])
	copy(u[at/2:], lu[0][:wide/2])
	copy(v[at/2:], lu[1][:wide/2])
	return different
}
