// Package i420 converts the pixels of a screen to planes of luma and chroma for video
// encoders.
package i420

import "encoding/binary"

// The colours follow BT.601 with the limited range: luma from 16 to 235, chroma from 16
// to 240 (ITU-R BT.601-7, 2.5.3). Decoders of VP8 use the inverse (RFC 6386, 9.2), and
// decoders of H.264 if the stream says so. Each factor is the standard's times 2^15,
// rounded such that white is exactly 235 and every grey has a chroma of exactly 128.
// Results are rounded to the nearest. The chroma of two by two pixels is their mean at
// their middle, where libyuv and browsers expect it.
const (
	lumaR, lumaG, lumaB = 8414, 16520, 3208
	uR, uG, uB          = -4857, -9535, 14392
	vR, vG, vB          = 14392, -12052, -2340

	lumaBias   = 16<<15 + 1<<14
	chromaBias = 128<<17 + 1<<16 // of the sum of four pixels
)

// Block is the number of pixels of a row that are converted together.
const Block = 16

// Rows converts two adjacent rows of BGRX pixels of len(changed) blocks. Each block has 64
// bytes of top and of bottom, which become 16 bytes of the luma rows y0 and y1, and 8
// bytes of u and of v. Rows sets changed[i] to a value other than 0 if a sample of block
// i changes. It panics if a slice is too short.
func Rows(top, bottom, y0, y1, u, v, changed []byte) {
	convertRows(top, bottom, y0, y1, u, v, changed)
}

// convertRowsGo is Rows without assembly.
func convertRowsGo(top, bottom, y0, y1, u, v, changed []byte) {
	for i := range changed {
		t, b := (*[64]byte)(top[64*i:]), (*[64]byte)(bottom[64*i:])
		var diff uint64
		for half := range 2 {
			var l0, l1, cu, cv uint64
			for n := range 4 {
				at := 32*half + 8*n
				p, q := binary.LittleEndian.Uint64(t[at:]), binary.LittleEndian.Uint64(b[at:])
				// The right one of the pair goes from bit 32 to bit 8.
				l := lumaPair(p)
				l0 |= (l | l>>24) & 0xffff << (16 * n)
				l = lumaPair(q)
				l1 |= (l | l>>24) & 0xffff << (16 * n)
				c := chromaQuad(p, q)
				cu |= c & 0xff << (8 * n)
				cv |= c >> 32 << (8 * n)
			}
			diff |= swap64(y0[16*i+8*half:], l0) | swap64(y1[16*i+8*half:], l1)
			diff |= swap32(u[8*i+4*half:], cu) | swap32(v[8*i+4*half:], cv)
		}
		if diff != 0 {
			changed[i] = 1
		}
	}
}

// The functions below calculate two samples in the halves of a word.
const (
	halves = 0x000000ff_000000ff
	// A negative factor borrows from the upper half, and the bias gives it back.
	bothR    = uR + vR<<32
	bothG    = uG + vG<<32
	bothB    = uB + vB<<32
	bothBias = chromaBias + chromaBias<<32
)

// lumaPair returns the luma of two pixels, in the lowest bytes of both halves.
func lumaPair(p uint64) uint64 {
	return (p&halves*lumaB + p>>8&halves*lumaG + p>>16&halves*lumaR + (lumaBias + lumaBias<<32)) >> 15 & halves
}

// chromaQuad returns the chroma of two pixels and of the two below them: U in
// the lowest byte of the lower half, V in the lowest byte of the upper half.
func chromaQuad(top, bottom uint64) uint64 {
	// Blue and red are summed in one word, with room for the carries.
	const mask = 0x00ff00ff_00ff00ff
	even := top&mask + bottom&mask
	odd := top>>8&mask + bottom>>8&mask
	even += even >> 32
	odd += odd >> 32
	b, g, r := int64(even&0xffff), int64(odd&0xffff), int64(even>>16&0xffff)
	return uint64(b*bothB+g*bothG+r*bothR+bothBias) >> 17 & halves
}

// swap64 stores eight samples and returns their difference to the previous ones.
func swap64(at []byte, v uint64) uint64 {
	old := binary.LittleEndian.Uint64(at)
	binary.LittleEndian.PutUint64(at, v)
	return old ^ v
}

func swap32(at []byte, v uint64) uint64 {
	old := binary.LittleEndian.Uint32(at)
	binary.LittleEndian.PutUint32(at, uint32(v))
	return uint64(old) ^ v&0xffffffff
}
