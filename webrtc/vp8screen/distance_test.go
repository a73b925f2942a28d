package vp8screen

import (
	"math/rand/v2"
	"testing"
)

// TestDistances compares the kernels with plain sums.
func TestDistances(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	a, b := make([]byte, 40*16), make([]byte, 24*16)
	for round := range 200 {
		extreme := round%4 == 0
		for _, p := range [][]byte{a, b} {
			for i := range p {
				p[i] = byte(rnd.Uint32())
				if extreme {
					p[i] = byte(-int(p[i] & 1))
				}
			}
		}
		if round == 0 {
			clear(a)
			for i := range b {
				b[i] = 255
			}
		}
		for _, n := range []int{8, 16} {
			want := 0
			for y := range n {
				for x := range n {
					d := int(a[y*40+x]) - int(b[y*24+x])
					want += max(d, -d)
				}
			}
			if got := planeDistance(a, 40, b, 24, n); got != want {
				t.Fatalf("planeDistance of %d = %d, want %d", n, got, want)
			}
			if got := planeDistanceGo(a, 40, b, 24, n); got != want {
				t.Fatalf("planeDistanceGo of %d = %d, want %d", n, got, want)
			}
			if got, want := planeDistance(a, 40, b, 0, n), planeDistanceGo(a, 40, b, 0, n); got != want {
				t.Fatalf("planeDistance from one row = %d, want %d", got, want)
			}
		}
		source := loadSquare(a, 40)
		var squares [subModes]square
		for i := range squares {
			squares[i] = loadSquare(b[24*i:], 24)
		}
		var got, want [subModes]int32
		squareDistances(&source, &squares, &got)
		squareDistancesGo(&source, &squares, &want)
		if got != want {
			t.Fatalf("squareDistances = %v, want %v", got, want)
		}
	}
}
