package vp8screen

// SSE2, which these need, is part of every amd64 processor.

//go:noescape
func distance16(a *byte, aStride int, b *byte, bStride int) int

//go:noescape
func distance8(a *byte, aStride int, b *byte, bStride int) int

//go:noescape
func squareDistances(source *square, squares *[subModes]square, d *[subModes]int32)

// planeDistance returns the sum of absolute differences of two squares of n samples, 8 or
// 16. A stride of zero repeats one row.
func planeDistance(a []byte, aStride int, b []byte, bStride, n int) int {
	_, _ = a[(n-1)*aStride+n-1], b[(n-1)*bStride+n-1]
	if n == 16 {
		return distance16(&a[0], aStride, &b[0], bStride)
	}
	return distance8(&a[0], aStride, &b[0], bStride)
}
