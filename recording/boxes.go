package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"
)

// An MP4 file consists of boxes, each with its length and kind in front (ISO/IEC 14496-12,
// 4.2). A fragmented file has a moov box, which describes the tracks, and then pairs of moof,
// which describes samples, and mdat, which has them (8.8).

// movie describes the complete boxes of a file. ffmpeg has written the file, so the order of
// the boxes in a moov and moof is ffmpeg's.
type movie struct {
	good       int64 // bytes up to the end of the last complete box or pair of boxes
	fragmented bool
	timescale  uint32 // of the video track
	frames     int64
	duration   time.Duration // of the video

	track    uint32 // the video's id
	perFrame uint32 // default duration of a sample
	end      uint64 // of the latest sample, in 1/timescale

	// The track that is being read.
	id, scale, per uint32
	video          bool
}

var errBoxes = errors.New("not a whole MP4 file")

const (
	boxHeader = 8
	// maxIndex bounds a moov or moof box, which is read into memory.
	maxIndex = 256 << 20
)

// readMovie reads the boxes of a file of a size. It ignores data at the end that is not a
// complete box.
func readMovie(r io.ReaderAt, size int64) (movie, error) {
	var m movie
	var moof []byte // whose mdat follows
	for at := int64(0); at < size; {
		kind, header, length := boxAt(r, at)
		isIndex := kind == "moov" || kind == "moof"
		if length < header || length > size-at || isIndex && length > maxIndex {
			break // ffmpeg does not write the length zero, which means the rest of the file
		}
		var index []byte
		if isIndex {
			index = make([]byte, length-header)
			if _, err := r.ReadAt(index, at+header); err != nil {
				return m, fmt.Errorf("read MP4 file: %w", err)
			}
		}
		at += length
		if kind == "moof" {
			moof = index
			continue
		}
		next := m
		var err error
		if kind == "moov" {
			err = next.read(index)
		} else if kind == "mdat" && moof != nil {
			err, moof = next.read(moof), nil
		}
		if err != nil {
			break
		}
		m, m.good = next, at
	}
	if m.timescale == 0 {
		return m, fmt.Errorf("%w: it has no video track", errBoxes)
	}
	m.duration = time.Duration(float64(m.end) / float64(m.timescale) * float64(time.Second))
	return m, nil
}

// boxAt reads the kind, the header's length and the length of a box. The latter is -1 if there
// is no box.
func boxAt(r io.ReaderAt, at int64) (kind string, header, length int64) {
	var head [2 * boxHeader]byte
	n, _ := r.ReadAt(head[:], at)
	if n < boxHeader {
		return "", boxHeader, -1
	}
	length, kind = int64(binary.BigEndian.Uint32(head[:])), string(head[4:8])
	if length == 1 && n == len(head) {
		return kind, 2 * boxHeader, int64(binary.BigEndian.Uint64(head[8:])) //nolint:gosec // the caller checks it
	}
	return kind, boxHeader, length
}

// read reads the boxes in b.
func (m *movie) read(b []byte) error {
	for len(b) > 0 {
		if len(b) < boxHeader {
			return errBoxes
		}
		length := int64(binary.BigEndian.Uint32(b))
		if length < boxHeader || length > int64(len(b)) {
			return errBoxes
		}
		kind, f := string(b[4:8]), fields{b: b[boxHeader:length]}
		b = b[length:]
		switch kind {
		case "trak", "mdia", "minf", "stbl", "mvex", "traf":
			if err := m.read(f.b); err != nil {
				return err
			}
		default:
			if m.readFields(kind, &f); f.short {
				return errBoxes
			}
		}
	}
	return nil
}

// readFields reads a box without boxes in it.
func (m *movie) readFields(kind string, f *fields) {
	switch kind {
	case "tkhd":
		f.skipTimes()
		m.id = f.u32()
	case "mdhd":
		f.skipTimes()
		m.scale = f.u32()
	case "hdlr":
		f.skip(8)
		m.video = f.u32() == 0x76696465 // "vide"
	case "stts":
		if !m.video || m.timescale != 0 {
			return
		}
		m.track, m.timescale = m.id, m.scale
		f.skip(4)
		for n := f.u32(); n > 0 && !f.short; n-- {
			count, each := f.u32(), f.u32()
			m.frames += int64(count)
			m.end += uint64(count) * uint64(each)
		}
	case "trex":
		m.fragmented = true
		f.skip(4)
		track := f.u32()
		f.skip(4)
		if per := f.u32(); track == m.track {
			m.perFrame = per
		}
	case "tfhd":
		flags := f.u32()
		m.id, m.per = f.u32(), m.perFrame
		f.skip(8*int(flags&1) + 4*int(flags>>1&1)) // base data offset, sample description
		if flags&0x8 != 0 {
			m.per = f.u32()
		}
	case "tfdt", "trun":
		if m.id == m.track {
			m.readSamples(kind, f)
		}
	}
}

// readSamples reads the time of the first sample of a fragment, or adds up its samples.
func (m *movie) readSamples(kind string, f *fields) {
	flags := f.u32()
	if kind == "tfdt" {
		m.end = uint64(f.u32())
		if flags>>24 == 1 {
			m.end = m.end<<32 | uint64(f.u32())
		}
		return
	}
	n := f.u32()
	m.frames += int64(n)
	f.skip(4 * bits.OnesCount32(flags&0x5))   // data offset, first sample's flags
	each := 4 * bits.OnesCount32(flags&0xe00) // size, flags, composition offset
	if flags&0x100 == 0 {
		f.skip(each * int(min(n, 1<<28)))
		m.end += uint64(n) * uint64(m.per)
		return
	}
	for ; n > 0 && !f.short; n-- {
		m.end += uint64(f.u32())
		f.skip(each)
	}
}

// fields reads big endian numbers from a box. Beyond its end it returns zeros and sets short.
type fields struct {
	b     []byte
	short bool
}

func (f *fields) skip(n int) {
	if n > len(f.b) {
		f.b, f.short = nil, true
		return
	}
	f.b = f.b[n:]
}

// skipTimes skips version, flags and the two times at the beginning of tkhd and mdhd.
func (f *fields) skipTimes() {
	n := 8
	if f.u32()>>24 == 1 {
		n = 16
	}
	f.skip(n)
}

func (f *fields) u32() uint32 {
	if len(f.b) < 4 {
		f.b, f.short = nil, true
		return 0
	}
	v := binary.BigEndian.Uint32(f.b)
	f.b = f.b[4:]
	return v
}
