package picture

import (
	"context"
	"fmt"
	"image"

	"github.com/HugoSmits86/nativewebp"
)

// webpFile encodes the whole picture. A VP8L stream cannot be put together
// from parts, so that there is nothing smaller to keep than the file.
func (w *worker) webpFile(ctx context.Context, l *layout, j *job) ([]byte, error) {
	m := image.NewNRGBA(image.Rect(0, 0, l.width, l.height))
	for i := range l.count {
		r := w.rows(l, j, i)
		y0, _ := l.strip(i)
		for y := range r.height {
			toRGBA(m.Pix[(y0+y)*m.Stride:][:m.Stride], r.pix[y*r.stride:])
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out output
	if err := nativewebp.Encode(&out, m, nil); err != nil {
		return nil, fmt.Errorf("encode webp: %w", err)
	}
	return out.b, nil
}

// toRGBA turns BGRX pixels into opaque RGBA ones.
func toRGBA(dst, src []byte) {
	for len(dst) >= 4 && len(src) >= 3 {
		dst[0], dst[1], dst[2], dst[3] = src[2], src[1], src[0], 255
		dst, src = dst[4:], src[min(4, len(src)):]
	}
}
