package picture

import (
	"hash/maphash"
	"image"
)

// The crosshair has two red bars with a white outline, which are visible on every background.
const (
	crossArm     = 12 // from the hot spot to the end of a bar
	crossHalf    = 1  // a bar is 2*crossHalf+1 wide
	crossOutline = 1
)

// overlayKey identifies an overlay. The zero key means none.
type overlayKey struct {
	cross  image.Point
	cursor image.Rectangle
	pixels uint64 // a hash of the cursor's pixels
	kind   uint8  // bits: 1 has a cross, 2 has a cursor
}

// overlay is drawn over the screen, in the image's coordinates.
type overlay struct {
	key    overlayKey
	cursor *Cursor
}

// newOverlay returns the overlay that is visible in the region.
func newOverlay(o Options, region image.Rectangle) (overlay, error) {
	var v overlay
	if o.Cross != nil {
		if !near(o.Cross.X) || !near(o.Cross.Y) {
			return v, invalid("crosshair at %v", *o.Cross)
		}
		if crossBounds(*o.Cross).Overlaps(region) {
			v.key.kind |= 1
			v.key.cross = *o.Cross
		}
	}
	if o.Cursor != nil {
		if err := o.Cursor.check(); err != nil {
			return v, err
		}
		b := o.Cursor.bounds()
		if b.Overlaps(region) {
			v.key.kind |= 2
			v.key.cursor = b
			v.key.pixels = maphash.Bytes(seed, o.Cursor.Pix[:4*b.Dx()*b.Dy()])
			v.cursor = o.Cursor
		}
	}
	return v, nil
}

// seed is constant, so that equal cursors have equal keys.
var seed = maphash.MakeSeed()

func (c *Cursor) bounds() image.Rectangle {
	return image.Rect(c.X, c.Y, c.X+c.Width, c.Y+c.Height)
}

func crossBounds(p image.Point) image.Rectangle {
	r := crossArm + crossOutline
	return image.Rect(p.X-r, p.Y-r, p.X+r+1, p.Y+r+1)
}

// in returns the key of the overlay in a rectangle, or the zero key if it is not visible there.
func (v overlay) in(r image.Rectangle) overlayKey {
	k := v.key
	if k.kind&1 != 0 && !crossBounds(k.cross).Overlaps(r) {
		k.kind &^= 1
		k.cross = image.Point{}
	}
	if k.kind&2 != 0 && !k.cursor.Overlaps(r) {
		k.kind &^= 2
		k.cursor, k.pixels = image.Rectangle{}, 0
	}
	return k
}

// draw draws the overlay on BGRX pixels that show r of the image.
func (v overlay) draw(pix []byte, stride int, r image.Rectangle) {
	k := v.in(r)
	if k.kind&2 != 0 {
		v.cursor.draw(pix, stride, r)
	}
	if k.kind&1 != 0 {
		drawCross(pix, stride, r, k.cross)
	}
}

func drawCross(pix []byte, stride int, r image.Rectangle, p image.Point) {
	fill := func(long, half int, bgr [3]byte) {
		for _, bar := range []image.Rectangle{
			image.Rect(p.X-long, p.Y-half, p.X+long+1, p.Y+half+1),
			image.Rect(p.X-half, p.Y-long, p.X+half+1, p.Y+long+1),
		} {
			b := bar.Intersect(r).Sub(r.Min)
			for y := b.Min.Y; y < b.Max.Y; y++ {
				for x := b.Min.X; x < b.Max.X; x++ {
					copy(pix[y*stride+4*x:], bgr[:])
				}
			}
		}
	}
	fill(crossArm+crossOutline, crossHalf+crossOutline, [3]byte{255, 255, 255})
	fill(crossArm, crossHalf, [3]byte{0, 0, 255})
}

// draw composites the cursor: premultiplied source over opaque destination.
func (c *Cursor) draw(pix []byte, stride int, r image.Rectangle) {
	b := c.bounds().Intersect(r)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		src := c.Pix[4*((y-c.Y)*c.Width+b.Min.X-c.X):][:4*b.Dx()]
		dst := pix[(y-r.Min.Y)*stride+4*(b.Min.X-r.Min.X):][:4*b.Dx()]
		for i := 0; i < len(src); i += 4 {
			rest := 255 - uint32(src[i+3])
			for k := i; k < i+3; k++ {
				// A server may send colours above alpha.
				dst[k] = byte(min(uint32(src[k])+(uint32(dst[k])*rest+127)/255, 255))
			}
		}
	}
}
