package i420

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestRows compares the kernel of this processor with plain Go.
func TestRows(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 3))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = [4]byte{0, 255, byte(rnd.Uint32()), byte(rnd.Uint32())}[rnd.IntN(4)]
		}
		return b
	}
	for round := range 2000 {
		n := rnd.IntN(12)
		top, bottom := random(64*n), random(64*n)
		got := [5][]byte{random(16 * n), random(16 * n), random(8 * n), random(8 * n), random(n)}
		var want [5][]byte
		for i := range got {
			want[i] = bytes.Clone(got[i])
		}
		for again := range 2 {
			clear(got[4])
			clear(want[4])
			Rows(top, bottom, got[0], got[1], got[2], got[3], got[4])
			convertRowsGo(top, bottom, want[0], want[1], want[2], want[3], want[4])
			for i := range got[4] {
				if (got[4][i] != 0) != (want[4][i] != 0) {
					t.Fatalf("round %d.%d: changed %v, want %v", round, again, got[4], want[4])
				}
			}
			for i := range got[:4] {
				if !bytes.Equal(got[i], want[i]) {
					t.Fatalf("round %d: plane %d is %v, want %v", round, i, got[i], want[i])
				}
			}
			if n > 0 { // one sample of one plane is made wrong
				p, at := rnd.IntN(4), rnd.IntN(n)
				got[p][at] ^= 1
				want[p][at] ^= 1
			}
		}
	}
}
