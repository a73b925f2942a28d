package webrtc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// mostPicture is the largest encoded picture, in bytes.
const mostPicture = 64 << 20

var errOutput = errors.New("not what ffmpeg was asked for")

func (p ffmpegProgram) container() string {
	if p.codec == H264 {
		return "flv"
	}
	return "ivf"
}

// split reads pictures until the end of the output.
func (p ffmpegProgram) split(r io.Reader, give func(data []byte, key bool)) error {
	b := bufio.NewReaderSize(r, 64<<10)
	if p.codec == H264 {
		return splitFLV(b, give)
	}
	return splitIVF(b, give)
}

// splitIVF reads an IVF file of VP9: a header of 32 bytes, then frames after 12 bytes each,
// which begin with the frame's length.
func splitIVF(r io.Reader, give func([]byte, bool)) error {
	head := make([]byte, 32)
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	if string(head[:4]) != "DKIF" {
		return fmt.Errorf("%w: not an IVF file", errOutput)
	}
	var data []byte
	for {
		if _, err := io.ReadFull(r, head[:12]); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(head)
		if n == 0 || n > mostPicture {
			return fmt.Errorf("%w: a frame of %d bytes", errOutput, n)
		}
		data = slices.Grow(data[:0], int(n))[:n]
		if _, err := io.ReadFull(r, data); err != nil {
			return err
		}
		// The third bit from the top, after marker and profile
		// (VP9 bitstream, section 6.2).
		give(data, data[0]&0x04 == 0)
	}
}

// splitFLV reads an FLV file of H.264 (Video File Format Specification 10.1, annex E). After
// five bytes, tags of video have the decoder's configuration or NAL units with their
// lengths.
func splitFLV(r io.Reader, give func([]byte, bool)) error {
	head := make([]byte, 13) // the file's header and the length of the tag before the first
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	if string(head[:3]) != "FLV" {
		return fmt.Errorf("%w: not an FLV file", errOutput)
	}
	var data, out, sets []byte
	for {
		if _, err := io.ReadFull(r, head[:11]); err != nil {
			return err
		}
		n := int(head[1])<<16 | int(head[2])<<8 | int(head[3])
		data = slices.Grow(data[:0], n+4)[:n+4]
		if _, err := io.ReadFull(r, data); err != nil {
			return err
		}
		const video, avc = 9, 7
		body := data[:n]
		if head[0]&0x1f != video || n < 5 || body[0]&0x0f != avc {
			continue
		}
		key := body[0]>>4 == 1
		var err error
		switch body[1] {
		case 0:
			sets, err = parameterSets(body[5:])
		case 1:
			out = out[:0]
			if key {
				out = append(out, sets...)
			}
			if out, err = appendAnnexB(out, body[5:]); err == nil {
				give(out, key)
			}
		}
		if err != nil {
			return err
		}
	}
}

// startCode begins each NAL unit (H.264, annex B).
var startCode = []byte{0, 0, 0, 1}

// parameterSets returns the sequence and picture parameter sets of a decoder configuration
// record (ISO/IEC 14496-15, section 5.3.3.1), in Annex B form.
func parameterSets(b []byte) (sets []byte, err error) {
	if len(b) < 6 {
		return nil, fmt.Errorf("%w: a short configuration", errOutput)
	}
	count, b := int(b[5]&0x1f), b[6:]
	for range 2 {
		for range count {
			if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
				return nil, fmt.Errorf("%w: a short parameter set", errOutput)
			}
			n := int(binary.BigEndian.Uint16(b))
			sets = append(append(sets, startCode...), b[2:2+n]...)
			b = b[2+n:]
		}
		if len(b) == 0 {
			break
		}
		count, b = int(b[0]), b[1:]
	}
	return sets, nil
}

// appendAnnexB appends NAL units that have four bytes of length each.
func appendAnnexB(out, b []byte) ([]byte, error) {
	for len(b) > 0 {
		if len(b) < 4 || uint64(len(b)) < 4+uint64(binary.BigEndian.Uint32(b)) {
			return out, fmt.Errorf("%w: a short NAL unit", errOutput)
		}
		n := int(binary.BigEndian.Uint32(b))
		out = append(append(out, startCode...), b[4:4+n]...)
		b = b[4+n:]
	}
	return out, nil
}
