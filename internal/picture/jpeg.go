package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
)

// image/jpeg encodes each strip (baseline, 4:2:0). Strips are joined as restart intervals
// (ITU-T T.81, sections B.2.4.4 and E.1.4), at which DC prediction starts again. The
// coefficients equal the ones of encoding the whole picture.

// mcu is the size of a minimum coded unit with 4:2:0 sampling.
const mcu = 16

func jpegStripRows(rows, width int) int {
	// DRI counts units in 16 bits.
	return min(rows, 65535/((width+mcu-1)/mcu)*mcu)
}

func (w *worker) jpegPiece(r rows, quality int) (*piece, error) {
	m := w.toYCbCr(r)
	w.out.b = w.out.b[:0]
	if err := jpeg.Encode(&w.out, m, &jpeg.Options{Quality: quality}); err != nil {
		return nil, fmt.Errorf("encode jpeg: %w", err)
	}
	_, _, scan, err := jpegParts(w.out.b)
	if err != nil {
		return nil, err
	}
	return &piece{data: bytes.Clone(w.out.b[scan : len(w.out.b)-2])}, nil
}

// jpegParts returns the offsets of the frame header, of the scan header and of the entropy
// coded data.
func jpegParts(file []byte) (frame, scan, data int, err error) {
	const soi, sof0, sos = 0xd8, 0xc0, 0xda
	if len(file) < 4 || file[0] != 0xff || file[1] != soi {
		return 0, 0, 0, errors.New("join jpeg: no start of image")
	}
	for i := 2; i+4 <= len(file) && file[i] == 0xff; {
		next := i + 2 + int(binary.BigEndian.Uint16(file[i+2:]))
		switch {
		case next > len(file)-2:
			return 0, 0, 0, errors.New("join jpeg: cut off")
		case file[i+1] == sof0:
			frame = i
		case file[i+1] == sos && frame != 0:
			return frame, i, next, nil
		}
		i = next
	}
	return 0, 0, 0, errors.New("join jpeg: no scan")
}

// toYCbCr converts rows and repeats the last column and row up to whole units, both like
// image/jpeg, so that strips have the coefficients of the whole picture.
func (w *worker) toYCbCr(r rows) *image.YCbCr {
	width, height := (r.width+mcu-1)&^(mcu-1), (r.height+mcu-1)&^(mcu-1)
	raw := grow(&w.raw, width*height*3/2)
	m := &image.YCbCr{
		Y: raw[:width*height], YStride: width,
		Cb: raw[width*height:][:width*height/4], Cr: raw[width*height*5/4:], CStride: width / 2,
		SubsampleRatio: image.YCbCrSubsampleRatio420, Rect: image.Rect(0, 0, width, height),
	}
	for y := 0; y < height; y += 2 {
		top := r.pix[min(y, r.height-1)*r.stride:][:4*r.width]
		bottom := r.pix[min(y+1, r.height-1)*r.stride:][:4*r.width]
		convertRows(m, y, top, bottom)
	}
	return m
}

// convertRows converts two rows of pixels into rows y and y+1 of m.
func convertRows(m *image.YCbCr, y int, top, bottom []byte) {
	y0 := m.Y[y*m.YStride:][:m.YStride]
	y1 := m.Y[(y+1)*m.YStride:][:m.YStride]
	cb := m.Cb[y/2*m.CStride:][:m.CStride]
	cr := m.Cr[y/2*m.CStride:][:m.CStride]
	last := len(top)/4 - 1
	var before [4]uint32
	var luma [4]byte
	var blue, red byte
	for x := range cb {
		i, k := 4*min(2*x, last), 4*min(2*x+1, last)
		quad := [4]uint32{
			binary.LittleEndian.Uint32(top[i:]), binary.LittleEndian.Uint32(top[k:]),
			binary.LittleEndian.Uint32(bottom[i:]), binary.LittleEndian.Uint32(bottom[k:]),
		}
		// Large areas of a screen have one colour.
		if x == 0 || quad != before {
			before = quad
			luma, blue, red = convertQuad(quad)
		}
		y0[2*x], y0[2*x+1], y1[2*x], y1[2*x+1] = luma[0], luma[1], luma[2], luma[3]
		cb[x], cr[x] = blue, red
	}
}

// convertQuad converts two by two pixels like image/color (JFIF 1.02, section 7, in 16 bit
// fixed point), and averages their chroma like image/jpeg.
func convertQuad(quad [4]uint32) (luma [4]byte, blue, red byte) {
	var sumB, sumR int32
	for n, p := range quad {
		b, g, r := int32(p&0xff), int32(p>>8&0xff), int32(p>>16&0xff)
		luma[n] = byte((19595*r + 38470*g + 7471*b + 1<<15) >> 16)
		sumB += chroma(-11056*r - 21712*g + 32768*b)
		sumR += chroma(32768*r - 27440*g - 5328*b)
	}
	return luma, byte((sumB + 2) >> 2), byte((sumR + 2) >> 2)
}

func chroma(v int32) int32 {
	return min((v+257<<15)>>16, 255)
}

func jpegFile(l *layout, pieces []*piece) ([]byte, error) {
	// The tables depend only on the quality, so a tiny picture has them.
	var tiny output
	err := jpeg.Encode(&tiny, image.NewYCbCr(image.Rect(0, 0, mcu, mcu), image.YCbCrSubsampleRatio420), &jpeg.Options{Quality: l.quality})
	if err != nil {
		return nil, fmt.Errorf("encode jpeg: %w", err)
	}
	frame, scan, data, err := jpegParts(tiny.b)
	if err != nil {
		return nil, err
	}
	// Section B.2.2: marker, length, precision, lines, samples per line.
	binary.BigEndian.PutUint16(tiny.b[frame+5:], uint16(l.height))
	binary.BigEndian.PutUint16(tiny.b[frame+7:], uint16(l.width))
	size := data + 8
	for _, p := range pieces {
		size += len(p.data) + 2
	}
	out := append(make([]byte, 0, size), tiny.b[:scan]...)
	if len(pieces) > 1 {
		out = append(out, 0xff, 0xdd, 0, 4) // DRI
		out = binary.BigEndian.AppendUint16(out, uint16((l.width+mcu-1)/mcu*(l.rows/mcu)))
	}
	out = append(out, tiny.b[scan:data]...)
	for i, p := range pieces {
		if i > 0 {
			out = append(out, 0xff, 0xd0+byte((i-1)%8)) // RST0 to RST7, in turn
		}
		out = append(out, p.data...)
	}
	return append(out, 0xff, 0xd9), nil // EOI
}
