//go:build !amd64

package i420

func convertRows(top, bottom, y0, y1, u, v, changed []byte) {
	convertRowsGo(top, bottom, y0, y1, u, v, changed)
}
