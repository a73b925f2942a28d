package picture

import (
	"encoding/binary"
	"math/bits"
)

// A WebP has one VP8L stream. Each strip of rows has its own group of prefix codes (WebP
// lossless bitstream specification, section 6.2.2) and copies no pixel outside. All groups
// come first, then the pixels. Both are strings of bits that do not depend on their position,
// so strips are independent.
//
// Green is subtracted from red and blue. The prediction of section 4.1 uses one row above the
// strip. Screens have the black predictor, which leaves equal pixels equal. Photographs have
// a better one.

// Predictors of section 4.1.
const (
	predictBlack   = 0
	predictAverage = 7  // of left and top
	predictPlane   = 12 // left plus top minus top left, within a byte
)

// webpPhotoPercent is how large a strip must be, with the black predictor, to be tried as a
// photograph.
const webpPhotoPercent = 30

// tileBits returns the logarithm of the size of tiles, which have their own prefix codes and
// predictor. The height of strips is a power of two.
func tileBits(stripHeight int) int {
	return min(bits.Len(uint(stripHeight))-1, 9)
}

// webpPiece compresses rows. Unless the strip is the first one, they begin with the row above.
func (w *worker) webpPiece(r rows, first bool) *piece {
	if w.lossless == nil {
		w.lossless = newLossless()
	}
	shown := subtractGreen(w, r)
	p := w.webpTry(shown, r.width, first, predictBlack)
	if 8*webpPhotoPercent*r.width*r.height*3/100 < p.dataBits {
		for _, predictor := range []int{predictAverage, predictPlane} {
			if q := w.webpTry(shown, r.width, first, predictor); q.dataBits < p.dataBits {
				p = q
			}
		}
	}
	return p
}

func (w *worker) webpTry(shown []uint32, width int, first bool, predictor int) *piece {
	l := w.lossless
	l.pixels = residuals(l.pixels, shown, width, first, predictor)
	l.encode(width)
	p := &piece{predictor: predictor}
	p.codes, p.codeBits = l.codes.bytes()
	p.data, p.dataBits = l.data.bytes()
	return p
}

// subtractGreen returns the pixels with green subtracted from red and blue.
func subtractGreen(w *worker, r rows) []uint32 {
	n := r.width * r.height
	if cap(w.shown) < n {
		w.shown = make([]uint32, n)
	}
	w.shown = w.shown[:n]
	for y := range r.height {
		src := r.pix[y*r.stride:][:4*r.width]
		dst := w.shown[y*r.width:][:r.width]
		for x := range dst {
			p := binary.LittleEndian.Uint32(src[4*x:])
			green := p >> 8 & 0xff
			dst[x] = p&0xff00 | (p&0xff00ff|0x1000100-green-green<<16)&0xff00ff
		}
	}
	return w.shown
}

// residuals returns the pixels of a strip minus their prediction. Alpha is always predicted, so
// it becomes zero.
func residuals(out, shown []uint32, width int, first bool, predictor int) []uint32 {
	out = out[:0]
	if first {
		// The first row is predicted from the left.
		left := uint32(0)
		for _, p := range shown[:width] {
			out = append(out, minus(p, left))
			left = p
		}
	}
	for i := width; i < len(shown); i += width {
		row, above := shown[i:i+width], shown[i-width:i]
		out = append(out, minus(row[0], above[0]))
		switch predictor {
		case predictBlack:
			out = append(out, row[1:]...)
		case predictAverage:
			for x := 1; x < width; x++ {
				l, t := row[x-1], above[x]
				out = append(out, minus(row[x], (l&t)+((l^t)&0xfefefe)>>1))
			}
		case predictPlane:
			for x := 1; x < width; x++ {
				out = append(out, minus(row[x], plane(row[x-1], above[x], above[x-1])))
			}
		}
	}
	return out
}

// minus subtracts bytes, each modulo 256.
func minus(a, b uint32) uint32 {
	return ((a&0xff00ff|0x1000100)-b&0xff00ff)&0xff00ff | (a&0xff00-b&0xff00)&0xff00
}

func plane(left, top, corner uint32) uint32 {
	v := uint32(0)
	for shift := 0; shift < 24; shift += 8 {
		d := int(left>>shift&0xff) + int(top>>shift&0xff) - int(corner>>shift&0xff)
		v |= uint32(min(max(d, 0), 255)) << shift
	}
	return v
}

func webpFile(l *layout, pieces []*piece) []byte {
	size := riffHeader + 1024
	for _, p := range pieces {
		size += p.size()
	}
	s := bitString{b: make([]byte, riffHeader, size)}
	var small lossless
	// Section 3: signature, size, no alpha, version 0.
	s.put(0x2f, 8)
	s.put(uint64(l.width-1), 14)
	s.put(uint64(l.height-1), 14)
	s.put(0, 4)
	side := tileBits(l.rows)
	s.put(1|2<<1, 3) // transform: subtract green
	s.put(1|0<<1, 3) // transform: predict
	s.put(uint64(side-2), 3)
	putTiles(&s, &small, l, side, func(strip int) uint32 { return uint32(pieces[strip].predictor) << 8 })
	s.put(0, 1) // no more transforms
	s.put(0, 1) // no colour cache
	if len(pieces) == 1 {
		s.put(0, 1) // one group of prefix codes
	} else {
		s.put(1, 1)
		s.put(uint64(side-2), 3)
		putTiles(&s, &small, l, side, func(strip int) uint32 { return uint32(strip) << 8 })
	}
	for _, p := range pieces {
		s.join(p.codes, p.codeBits)
	}
	for _, p := range pieces {
		s.join(p.data, p.dataBits)
	}
	return riff(s.flushed())
}

// putTiles appends an image with a pixel for each tile of the picture.
func putTiles(s *bitString, small *lossless, l *layout, side int, of func(strip int) uint32) {
	across, down := (l.width-1)>>side+1, (l.height-1)>>side+1
	small.pixels = small.pixels[:0]
	for y := range down {
		for range across {
			small.pixels = append(small.pixels, 0xff000000|of(y<<side/l.rows))
		}
	}
	small.encode(across)
	s.put(0, 1) // no colour cache
	s.join(small.codes.bytes())
	s.join(small.data.bytes())
}

// riffHeader is the size of the file's header before the VP8L stream.
const riffHeader = 20

// riff makes a file of riffHeader free bytes and a VP8L stream (WebP container
// specification).
func riff(out []byte) []byte {
	length := len(out) - riffHeader
	if length%2 == 1 {
		out = append(out, 0)
	}
	copy(out, "RIFF____WEBPVP8L")
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	binary.LittleEndian.PutUint32(out[16:], uint32(length))
	return out
}
