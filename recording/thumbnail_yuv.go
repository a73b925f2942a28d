package recording

import (
	"bytes"
	"image"
)

// yuvPicture is a planar picture with the colours of BT.601, chroma at half the width and
// height, and limited range (luma from 16 to 235).
type yuvPicture struct {
	Y, U, V           []byte
	YStride, UVStride int
	Width, Height     int
}

func (p *yuvPicture) equals(o yuvPicture) bool {
	return p.Width == o.Width && p.Height == o.Height && bytes.Equal(p.Y, o.Y) && bytes.Equal(p.U, o.U) && bytes.Equal(p.V, o.V)
}

// copyFrom makes p a copy, in the memory of p.
func (p *yuvPicture) copyFrom(o yuvPicture) {
	y, u, v := append(p.Y[:0], o.Y...), append(p.U[:0], o.U...), append(p.V[:0], o.V...)
	*p = o
	p.Y, p.U, p.V = y, u, v
}

// shrink returns a picture of at most a width. It divides by a whole number, which leaves
// lines and text even.
func (p *yuvPicture) shrink(width int) *image.RGBA {
	n := max(1, (p.Width+width-1)/width)
	w, h := max(1, p.Width/n), max(1, p.Height/n)
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	const kr, kb = 0.299, 0.114 // ITU-R BT.601-7, section 2.5.1
	// With 16 bits behind the point, from limited to full range.
	fix := func(f float64) int32 { return int32(f*65536 + 0.5) }
	const luma, chroma = 255.0 / 219, 255.0 / 224
	ky, rv, bu := fix(luma), fix(2*(1-kr)*chroma), fix(2*(1-kb)*chroma)
	gu, gv := fix(2*(1-kb)*kb/(1-kr-kb)*chroma), fix(2*(1-kr)*kr/(1-kr-kb)*chroma)
	for y := range h {
		row := img.Pix[y*img.Stride : y*img.Stride+4*w]
		for x := range w {
			c := ky * (mean(p.Y, p.YStride, x*n, y*n, n, n) - 16)
			cx, cy, m := x*n/2, y*n/2, (n+1)/2
			u := mean(p.U, p.UVStride, cx, cy, m, m) - 128
			v := mean(p.V, p.UVStride, cx, cy, m, m) - 128
			px := row[4*x : 4*x+4]
			px[0], px[1], px[2], px[3] = clip8(c+rv*v), clip8(c-gu*u-gv*v), clip8(c+bu*u), 255
		}
	}
	return img
}

// mean averages the part of a rectangle that is within a plane.
func mean(plane []byte, stride, x, y, w, h int) int32 {
	var sum, count int32
	for ; h > 0; h, y = h-1, y+1 {
		from := y*stride + x
		if from >= len(plane) {
			break
		}
		for _, v := range plane[from:min(from+w, (y+1)*stride, len(plane))] {
			sum += int32(v)
			count++
		}
	}
	if count == 0 {
		return 128
	}
	return (sum + count/2) / count
}

func clip8(v int32) uint8 {
	return uint8(min(255, max(0, (v+1<<15)>>16)))
}

// isBlank reports whether a picture has a single colour, except for a small part such as the
// pointer.
func isBlank(img *image.RGBA) bool {
	const near, part = 6, 200
	b := img.Rect
	middle := img.PixOffset(b.Dx()/2, b.Dy()/4)
	base := img.Pix[middle : middle+3]
	other := 0
	for i := 0; i+3 < len(img.Pix); i += 4 {
		for c := range 3 {
			if d := int(img.Pix[i+c]) - int(base[c]); d > near || d < -near {
				other++
				break
			}
		}
	}
	return other*part < b.Dx()*b.Dy()
}
