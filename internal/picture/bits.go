package picture

import "encoding/binary"

// bitString is a string of bits in VP8L's order: the first one is the lowest
// of the first byte.
type bitString struct {
	b    []byte
	acc  uint64 // the last bits, fewer than 32
	nacc uint
}

// put appends the low n bits of v, whose other bits are zero. n is at most 32.
func (s *bitString) put(v uint64, n uint) {
	s.acc |= v << s.nacc
	if s.nacc += n; s.nacc >= 32 {
		s.b = binary.LittleEndian.AppendUint32(s.b, uint32(s.acc))
		s.acc >>= 32
		s.nacc -= 32
	}
}

func (s *bitString) reset() { s.b, s.acc, s.nacc = s.b[:0], 0, 0 }

// bytes returns a copy of the bits, filled up with zeros, and their number.
func (s *bitString) bytes() ([]byte, int) {
	n := 8*len(s.b) + int(s.nacc)
	c := *s
	c.b = append(make([]byte, 0, n/8+1), s.b...)
	return c.flushed(), n
}

// flushed returns the bits, filled up with zeros. Nothing may be appended
// afterwards.
func (s *bitString) flushed() []byte {
	for n := 0; n < int(s.nacc); n += 8 {
		s.b = append(s.b, byte(s.acc>>n))
	}
	return s.b
}

// join appends n bits that bytes returned.
func (s *bitString) join(b []byte, n int) {
	for ; n >= 32; n -= 32 {
		s.put(uint64(binary.LittleEndian.Uint32(b)), 32)
		b = b[4:]
	}
	for ; n > 0; n -= 8 {
		s.put(uint64(b[0]), uint(min(n, 8)))
		b = b[1:]
	}
}
