package recording

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"
)

// box returns an MP4 box.
func box(kind string, content ...[]byte) []byte {
	body := bytes.Join(content, nil)
	b := binary.BigEndian.AppendUint32(nil, uint32(boxHeader+len(body)))
	return append(append(b, kind...), body...)
}

func words(v ...uint32) (b []byte) {
	for _, v := range v {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// smallMovie returns the beginning of a fragmented file, with a thousand units a second.
func smallMovie() []byte {
	trak := box("trak",
		box("tkhd", words(0, 0, 0, 1)),
		box("mdia", box("mdhd", words(0, 0, 0, 1000)), box("hdlr", words(0, 0), []byte("vide")), box("minf", box("stbl", box("stts", words(0, 0))))),
	)
	return append(box("ftyp", []byte("isom")), box("moov", trak, box("mvex", box("trex", words(0, 1, 1, 40))))...)
}

// smallFragment returns a fragment with n samples of the default length that begins at a time.
func smallFragment(at, n uint32) []byte {
	moof := box("moof", box("traf", box("tfhd", words(0, 1)), box("tfdt", words(0, at)), box("trun", words(0, n))))
	return append(moof, box("mdat", []byte("data"))...)
}

func TestReadMovie(t *testing.T) {
	t.Parallel()
	head := smallMovie()
	whole := bytes.Join([][]byte{head, smallFragment(0, 3), smallFragment(1000, 2)}, nil)
	for _, test := range []struct {
		name   string
		file   []byte
		good   int
		frames int64
		length time.Duration
		fails  bool
	}{
		{"nothing", nil, 0, 0, 0, true},
		{"no fragment", head, len(head), 0, 0, false},
		{"whole", whole, len(whole), 5, 1080 * time.Millisecond, false},
		{"cut off", whole[:len(whole)-1], len(whole) - len(smallFragment(0, 2)), 3, 120 * time.Millisecond, false},
		{"without its data", whole[:len(whole)-12], len(whole) - len(smallFragment(0, 2)), 3, 120 * time.Millisecond, false},
		{"with zeros", append(bytes.Clone(whole), make([]byte, 100)...), len(whole), 5, 1080 * time.Millisecond, false},
		{"with an impossible box", append(bytes.Clone(whole), "\x00\x00\x00\x01mdat\xff\xff\xff\xff\xff\xff\xff\xff"...), len(whole), 5, 1080 * time.Millisecond, false},
		{"text", []byte(strings.Repeat("text", 100)), 0, 0, 0, true},
	} {
		m, err := readMovie(bytes.NewReader(test.file), int64(len(test.file)))
		if (err != nil) != test.fails || m.good != int64(test.good) || m.frames != test.frames || m.duration != test.length {
			t.Errorf("%s: %+v, %v", test.name, m, err)
		}
	}
}

// FuzzReadMovie checks that the result of readMovie does not change if the file is cut off after
// the complete boxes that it reports.
func FuzzReadMovie(f *testing.F) {
	head := smallMovie()
	f.Add(head)
	f.Add(bytes.Join([][]byte{head, smallFragment(0, 3), smallFragment(1000, 2)}, nil))
	f.Add([]byte("\x00\x00\x00\x01mdat\x00\x00\x00\x00\x00\x00\x00\x20"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMovie(bytes.NewReader(b), int64(len(b)))
		if m.good < 0 || m.good > int64(len(b)) || m.frames < 0 {
			t.Fatalf("%+v", m)
		}
		if err != nil {
			return
		}
		again, err := readMovie(bytes.NewReader(b[:m.good]), m.good)
		if err != nil || again != m {
			t.Errorf("cut off: %+v, %v; before: %+v", again, err, m)
		}
	})
}

// FuzzVideo checks that only whole boxes reach the file.
func FuzzVideo(f *testing.F) {
	f.Add(smallMovie())
	f.Add(smallFragment(0, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := &entry{dir: t.TempDir()}
		v, err := newVideo(e)
		if err != nil {
			t.Fatal(err)
		}
		_ = v.copy(bytes.NewReader(b))         // fails for data that is not MP4
		if err := v.file.Close(); err != nil { // without a sync
			t.Fatal(err)
		}
		if e.info.Bytes != v.size || v.size > int64(len(b)) {
			t.Errorf("%d bytes of %d, Info.Bytes is %d", v.size, len(b), e.info.Bytes)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"rec_01m80cjysrnhegya002p85pw04","status":"completed"}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := parseManifest(b)
		if err != nil {
			return
		}
		dir := t.TempDir()
		if err := writeManifest(dir, info, false); err != nil {
			return // a time that cannot be written
		}
		again, err := readManifest(dir)
		if err != nil || !again.Started.Equal(info.Started) || !again.Ended.Equal(info.Ended) {
			t.Fatalf("%+v became %+v, %v", info, again, err)
		}
		again.Started, again.Ended = info.Started, info.Ended
		if again != info {
			t.Errorf("%+v became %+v", info, again)
		}
	})
}

func FuzzID(f *testing.F) {
	for _, id := range []string{"rec_01m80cjysrnhegya002p85pw04", "rec_", "rec_../x", "rec_8zzzzzzzzzzzzzzzzzzzzzzzzz"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if u, ok := parseID(id); ok && (formatID(u) != id || strings.ContainsAny(id, "/.")) {
			t.Errorf("%q is taken for an id", id)
		}
	})
}
