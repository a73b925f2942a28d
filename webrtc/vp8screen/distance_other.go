//go:build !amd64

package vp8screen

func planeDistance(a []byte, aStride int, b []byte, bStride, n int) int {
	return planeDistanceGo(a, aStride, b, bStride, n)
}

func squareDistances(source *square, squares *[subModes]square, d *[subModes]int32) {
	squareDistancesGo(source, squares, d)
}
