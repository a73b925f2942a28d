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

// movie describes the complete boxes of a file.
type movie struct {
	good       int64 // bytes up to the end of the last complete box or pair of boxes
	fragmented bool
	timescale  uint32 // of the video track
	frames     int64
	duration   time.Duration // of the video

	track    uint32 // the video's id
	perFrame uint32 // default duration of a sample
	end      uint64 // of the latest sample, in 1/timescale
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
	var at int64
	var moof []byte // whose mdat follows
	for at < size {
		kind, length, header, err := boxAt(r, at, size)
		if err != nil || length > size-at {
			break
		}
		var index []byte
		if kind == "moov" || kind == "moof" {
			if length > maxIndex {
				break
			}
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
		if kind == "moov" {
			err = next.readMoov(index)
		} else if kind == "mdat" && moof != nil {
			err, moof = next.readMoof(moof), nil
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

// boxAt reads the kind, the length and the header's length of a box.
func boxAt(r io.ReaderAt, at, size int64) (kind string, length, header int64, err error) {
	var head [2 * boxHeader]byte
	if size-at < boxHeader {
		return "", 0, 0, errBoxes
	}
	n := min(int64(len(head)), size-at)
	if _, err := r.ReadAt(head[:n], at); err != nil {
		return "", 0, 0, fmt.Errorf("read MP4 file: %w", err)
	}
	length, header = int64(binary.BigEndian.Uint32(head[:])), boxHeader
	kind = string(head[4:8])
	if length == 1 && n == int64(len(head)) {
		length, header = int64(binary.BigEndian.Uint64(head[8:])), 2*boxHeader //nolint:gosec // checked below
	}
	if length < header { // ffmpeg does not write zero, which means the rest of the file
		return "", 0, 0, errBoxes
	}
	return kind, length, header, nil
}

// boxesIn calls f with the kind and content of each box in b, until an error.
func boxesIn(b []byte, f func(kind string, content []byte) error) error {
	for len(b) > 0 {
		if len(b) < boxHeader {
			return errBoxes
		}
		length := int64(binary.BigEndian.Uint32(b))
		if length < boxHeader || length > int64(len(b)) {
			return errBoxes
		}
		if err := f(string(b[4:8]), b[boxHeader:length]); err != nil {
			return err
		}
		b = b[length:]
	}
	return nil
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

func (f *fields) u32() uint32 {
	if len(f.b) < 4 {
		f.b, f.short = nil, true
		return 0
	}
	v := binary.BigEndian.Uint32(f.b)
	f.b = f.b[4:]
	return v
}

func (f *fields) u64() uint64 {
	high := uint64(f.u32())
	return high<<32 | uint64(f.u32())
}

// readMoov finds the video track and, in a file without fragments, counts its samples.
func (m *movie) readMoov(b []byte) error {
	return boxesIn(b, func(kind string, content []byte) error {
		switch kind {
		case "trak":
			return m.readTrak(content)
		case "mvex":
			m.fragmented = true
			return boxesIn(content, func(kind string, content []byte) error {
				if f := (fields{b: content}); kind == "trex" {
					f.skip(4)
					track := f.u32()
					f.skip(4)
					if per := f.u32(); track == m.track {
						m.perFrame = per
					}
				}
				return nil
			})
		}
		return nil
	})
}

func (m *movie) readTrak(b []byte) error {
	var t struct {
		id, timescale uint32
		video         bool
		frames        int64
		end           uint64
	}
	var walk func(kind string, content []byte) error
	walk = func(kind string, content []byte) error {
		f := fields{b: content}
		switch kind {
		case "mdia", "minf", "stbl":
			return boxesIn(content, walk)
		case "tkhd":
			f.skip(timesOf(content))
			t.id = f.u32()
		case "mdhd":
			f.skip(timesOf(content))
			t.timescale = f.u32()
		case "hdlr":
			f.skip(8)
			t.video = f.u32() == 0x76696465 // "vide"
		case "stts":
			f.skip(4)
			for n := f.u32(); n > 0 && !f.short; n-- {
				count, each := f.u32(), f.u32()
				t.frames += int64(count)
				t.end += uint64(count) * uint64(each)
			}
		}
		if f.short {
			return errBoxes
		}
		return nil
	}
	if err := boxesIn(b, walk); err != nil {
		return err
	}
	if t.video && m.timescale == 0 && t.timescale != 0 {
		m.track, m.timescale, m.frames, m.end = t.id, t.timescale, t.frames, t.end
	}
	return nil
}

// timesOf returns the length of version, flags and the two times at the beginning of tkhd and
// mdhd.
func timesOf(content []byte) int {
	if len(content) > 0 && content[0] == 1 {
		return 4 + 16
	}
	return 4 + 8
}

// readMoof counts the samples of a fragment.
func (m *movie) readMoof(b []byte) error {
	return boxesIn(b, func(kind string, content []byte) error {
		if kind == "traf" {
			return m.readTraf(content)
		}
		return nil
	})
}

func (m *movie) readTraf(b []byte) error {
	per, at, mine := m.perFrame, m.end, false
	var frames int64
	err := boxesIn(b, func(kind string, content []byte) error {
		f := fields{b: content}
		flags := f.u32()
		switch kind {
		case "tfhd":
			mine = f.u32() == m.track
			if flags&0x1 != 0 {
				f.skip(8)
			}
			if flags&0x2 != 0 {
				f.skip(4)
			}
			if flags&0x8 != 0 {
				per = f.u32()
			}
		case "tfdt":
			if flags>>24 == 1 {
				at = f.u64()
			} else {
				at = uint64(f.u32())
			}
		case "trun":
			n := f.u32()
			frames += int64(n)
			at += f.run(flags, n, per)
		}
		if f.short {
			return errBoxes
		}
		return nil
	})
	if err == nil && mine {
		m.end = at
		m.frames += frames
	}
	return err
}

// run adds up the durations of the n samples of a trun box.
func (f *fields) run(flags, n, per uint32) (sum uint64) {
	f.skip(4 * bits.OnesCount32(flags&0x5))   // data offset, first sample's flags
	each := 4 * bits.OnesCount32(flags&0xe00) // size, flags, composition offset
	if flags&0x100 == 0 {
		f.skip(each * int(min(n, 1<<28)))
		return uint64(n) * uint64(per)
	}
	for ; n > 0 && !f.short; n-- {
		sum += uint64(f.u32())
		f.skip(each)
	}
	return sum
}
