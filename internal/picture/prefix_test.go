package picture

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Codes are complete, no longer than allowed, and no longer for what occurs
// more often; even where Huffman's own would be as deep as can be.
func TestCodeLengths(t *testing.T) {
	t.Parallel()
	fibonacci := []uint32{1, 1}
	for len(fibonacci) < 40 {
		n := len(fibonacci)
		fibonacci = append(fibonacci, fibonacci[n-1]+fibonacci[n-2])
	}
	rnd := rand.New(rand.NewPCG(1, 51))
	random := make([]uint32, 280)
	for i := range random {
		random[i] = uint32(rnd.ExpFloat64() * rnd.ExpFloat64() * 100)
	}
	cases := map[string]struct {
		counts []uint32
		limit  int
	}{
		"two":         {[]uint32{0, 5, 0, 1}, maxCodeLength},
		"fibonacci":   {fibonacci, maxCodeLength},
		"fibonacci 7": {fibonacci[:19], maxLengthCodeLength},
		"random":      {random, maxCodeLength},
	}
	for name, c := range cases {
		lengths := codeLengths(c.counts, c.limit)
		room := 0
		for i, n := range lengths {
			if (n > 0) != (c.counts[i] > 0) || int(n) > c.limit {
				t.Errorf("%s: symbol %d, which occurs %d times, has length %d", name, i, c.counts[i], n)
			}
			if n > 0 {
				room += 1 << (c.limit - int(n))
			}
			for k := range i {
				if c.counts[k] > c.counts[i] && c.counts[i] > 0 && lengths[k] > n {
					t.Errorf("%s: symbol %d has length %d, the rarer %d has %d", name, k, lengths[k], i, n)
				}
			}
		}
		if room != 1<<c.limit {
			t.Errorf("%s: the code uses %d of %d", name, room, 1<<c.limit)
		}
	}
	for _, counts := range [][]uint32{{}, {0, 0}} {
		if c := newPrefixCode(counts, maxCodeLength); !c.single {
			t.Errorf("a code of %d symbols that do not occur takes bits", len(counts))
		}
	}
}

// Symbols and extra bits of lengths, against section 5.2.2's own formula.
func TestPrefixed(t *testing.T) {
	t.Parallel()
	for v := 1; v < 1<<20; v += 1 + v/50 {
		symbol, extra, n := prefixed(v)
		got := symbol + 1
		if symbol >= 4 {
			bits := (symbol - 2) >> 1
			if int(n) != bits {
				t.Fatalf("prefixed(%d) has %d extra bits, want %d", v, n, bits)
			}
			got = (2+symbol&1)<<bits + int(extra) + 1
		}
		if got != v {
			t.Fatalf("prefixed(%d) = %d, %d, %d reads as %d", v, symbol, extra, n, got)
		}
	}
}

func TestLengthRuns(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(2, 52))
	for range 200 {
		var want []uint8
		for len(want) < 280 {
			want = append(want, bytes.Repeat([]byte{byte(rnd.IntN(16) * rnd.IntN(2))}, 1+rnd.IntN(150))...)
		}
		var got []uint8
		last := uint8(8)
		for _, r := range lengthRuns(want) {
			switch r.symbol {
			case 16:
				got = append(got, bytes.Repeat([]byte{last}, r.extra+3)...)
			case 17:
				got = append(got, make([]byte, r.extra+3)...)
			case 18:
				got = append(got, make([]byte, r.extra+11)...)
			default:
				if got = append(got, uint8(r.symbol)); r.symbol != 0 {
					last = uint8(r.symbol)
				}
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("runs of %v read as %v", want, got)
		}
	}
}

func TestBitString(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 53))
	for range 100 {
		var whole, joined bitString
		for range rnd.IntN(20) {
			var part bitString
			for range rnd.IntN(60) {
				n := uint(rnd.IntN(33))
				v := rnd.Uint64() & (1<<n - 1)
				whole.put(v, n)
				part.put(v, n)
			}
			joined.join(part.bytes())
		}
		a, an := whole.bytes()
		b, bn := joined.bytes()
		if !bytes.Equal(a, b) || an != bn {
			t.Fatalf("%d bits joined are %d others", an, bn)
		}
	}
}
