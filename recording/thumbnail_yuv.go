package recording

import (
	"bytes"
	"image"
)

// The pictures that are encoded have chroma of half the width and height, and the limited
// range: luma from 16 to 235, chroma from 16 to 240 (ITU-R BT.601-7, 2.5.3). JPEG files have
// the full range.

func equal(a, b *image.YCbCr) bool {
	return a.Rect == b.Rect && bytes.Equal(a.Y, b.Y) && bytes.Equal(a.Cb, b.Cb) && bytes.Equal(a.Cr, b.Cr)
}

// copyTo copies a picture into the memory of another one.
func copyTo(to, from *image.YCbCr) {
	y, cb, cr := append(to.Y[:0], from.Y...), append(to.Cb[:0], from.Cb...), append(to.Cr[:0], from.Cr...)
	*to = *from
	to.Y, to.Cb, to.Cr = y, cb, cr
}

// shrink returns a picture of at most a width, in the full range and with chroma of full size.
// It divides by a whole number, which leaves lines and text even.
func shrink(p *image.YCbCr, width int) *image.YCbCr {
	n := max(1, (p.Rect.Dx()+width-1)/width)
	w, h := max(1, p.Rect.Dx()/n), max(1, p.Rect.Dy()/n)
	img := image.NewYCbCr(image.Rect(0, 0, w, h), image.YCbCrSubsampleRatio444)
	for y := range h {
		for x := range w {
			at, cx, cy, m := y*w+x, x*n/2, y*n/2, (n+1)/2
			img.Y[at] = clip((mean(p.Y, p.YStride, x*n, y*n, n) - 16) * 255 / 219)
			img.Cb[at] = clip((mean(p.Cb, p.CStride, cx, cy, m)-128)*255/224 + 128)
			img.Cr[at] = clip((mean(p.Cr, p.CStride, cx, cy, m)-128)*255/224 + 128)
		}
	}
	return img
}

// mean averages the part of an n by n square that is within a plane.
func mean(plane []byte, stride, x, y, n int) int {
	sum, count := 0, 0
	for end := y + n; y < end; y++ {
		from := y*stride + x
		if from >= len(plane) {
			break
		}
		for _, v := range plane[from:min(from+n, (y+1)*stride, len(plane))] {
			sum += int(v)
			count++
		}
	}
	if count == 0 {
		return 128
	}
	return (sum + count/2) / count
}

// isBlank reports whether a result of shrink has a single colour, except for a small part such
// as the pointer.
func isBlank(img *image.YCbCr) bool {
	const near, part = 6, 200
	middle := img.YOffset(img.Rect.Dx()/2, img.Rect.Dy()/4)
	other := 0
	for i := range img.Y {
		for _, plane := range [][]byte{img.Y, img.Cb, img.Cr} {
			if d := int(plane[i]) - int(plane[middle]); d > near || d < -near {
				other++
				break
			}
		}
	}
	return other*part < len(img.Y)
}
