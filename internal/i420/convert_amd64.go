package i420

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// convertRowsAVX2 is convertRowsGo for n > 0 blocks.
//
//go:noescape
func convertRowsAVX2(top, bottom, y0, y1, u, v, changed *byte, n int)

func convertRows(top, bottom, y0, y1, u, v, changed []byte) {
	n := len(changed)
	if n == 0 {
		return
	}
	if !hasAVX2 {
		convertRowsGo(top, bottom, y0, y1, u, v, changed)
		return
	}
	// The kernel checks no bounds.
	_, _, _, _, _, _ = top[64*n-1], bottom[64*n-1], y0[16*n-1], y1[16*n-1], u[8*n-1], v[8*n-1]
	convertRowsAVX2(&top[0], &bottom[0], &y0[0], &y1[0], &u[0], &v[0], &changed[0], n)
}
