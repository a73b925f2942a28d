package timeline

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxLine bounds the lines that are read. Lines that are written are shorter: Data of 64
// KiB, or 4096 characters of text, with every character escaped.
const maxLine = 512 << 10

// Entries with larger values were not written by this package.
const (
	maxSeq = 1 << 53 // larger integers are not exact in JavaScript
	maxAt  = Milliseconds(1 << 40)
)

// Read yields the entries of a file that have a higher Seq than after, in the order of
// Seq, without holding them in memory. A file that does not exist has no entries. An error
// of the file system ends the sequence.
func Read(path string, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer f.Close()
		read(f, after)(yield)
	}
}

func read(r io.Reader, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		in := bufio.NewReaderSize(r, maxLine)
		for {
			line, err := in.ReadSlice('\n')
			tooLong := false
			for errors.Is(err, bufio.ErrBufferFull) {
				tooLong = true
				_, err = in.ReadSlice('\n')
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(Entry{}, fmt.Errorf("timeline: %w", err))
				return
			case tooLong:
				continue
			}
			seq, quick := quickSeq(line)
			if quick && seq <= after {
				continue
			}
			e, ok := parse(line)
			if ok && e.Seq > after && (!quick || e.Seq == seq) && !yield(e, nil) {
				return
			}
		}
	}
}

// quickSeq reads the number of an entry without decoding the entry. Lines of this package
// begin with it.
func quickSeq(line []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return 0, false
	}
	digits, _, ok := bytes.Cut(rest[:min(len(rest), 20)], []byte(","))
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(digits), 10, 64)
	return seq, err == nil
}

func parse(line []byte) (Entry, bool) {
	var e Entry
	err := json.Unmarshal(line, &e)
	return e, err == nil && e.Seq > 0 && e.Seq < maxSeq && e.Type != "" && e.At >= 0 && e.At < maxAt
}

// Bounds of what ReadPage returns.
const (
	DefaultLimit = 1000
	MaxLimit     = 10000

	maxPage = 4 << 20 // bytes of JSON
)

// Query chooses entries.
type Query struct {
	After uint64 // only entries with a higher Seq
	Limit int    // at most MaxLimit entries; zero means DefaultLimit
	Span         // only entries in this part of the video
}

// Span is a part of a video. The zero value is the whole video.
type Span struct {
	From, To time.Duration // To zero: to the end
}

// Check returns an *InvalidError if the span is not a part of a video.
func (s Span) Check() error {
	switch {
	case s.From < 0:
		return invalid("from", "must not be negative")
	case s.To < 0:
		return invalid("to", "must not be negative")
	case s.To != 0 && s.To <= s.From:
		return invalid("to", "must be after from")
	}
	return nil
}

func (s Span) has(at Milliseconds) bool {
	return at >= millis(s.From) && (s.To == 0 || at.Duration() < s.To)
}

// ReadPage returns the entries of a file that the query chooses, in the order of Seq. The
// page ends at the query's limit or with the entry that brings its JSON to 4 MiB. Next is
// the After of the query for the next page, or zero after the end of the file. A next page
// can be empty. A file that does not exist has no entries. The error is an *InvalidError for
// the query, or an error of the file system.
func ReadPage(path string, q Query) (page []Entry, next uint64, err error) {
	if q.Limit < 0 || q.Limit > MaxLimit {
		return nil, 0, invalid("limit", "must be between 1 and %d", MaxLimit)
	}
	if err := q.Check(); err != nil {
		return nil, 0, err
	}
	limit := cmp.Or(q.Limit, DefaultLimit)
	page = make([]Entry, 0, min(limit, 64))
	size := 0
	for e, err := range Read(path, q.After) {
		if err != nil {
			return nil, 0, err
		}
		if !q.has(e.At) {
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			return nil, 0, err
		}
		page = append(page, e)
		size += len(line)
		if len(page) == limit || size >= maxPage {
			return page, e.Seq, nil
		}
	}
	return page, 0, nil
}

// chronological returns the entries that pass keep, by position and wall clock. Entries after
// the last picture get the last position of the video. An end of zero means that it is unknown.
func chronological(entries iter.Seq2[Entry, error], end Milliseconds, keep func(Entry) bool) ([]Entry, error) {
	var all []Entry
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		if end > 0 {
			e.At = min(e.At, end-1)
		}
		if keep(e) {
			e.Data = nil // to save memory: most of it would be Data
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.At, b.At), a.Time.Compare(b.Time)) })
	return all, nil
}

// AddMarker adds a marker to the file of a video that has ended, and waits for the disk. began
// is the time of the video's beginning. AddMarker makes the file if it does not exist. The
// marker must have a position, which is at most length. The error is an *InvalidError,
// ErrFull, or an error of the file system.
func AddMarker(path string, m Marker, began time.Time, length time.Duration) (Entry, error) {
	if err := m.check(); err != nil {
		return Entry{}, err
	}
	switch most := millis(length); {
	case m.At == nil:
		return Entry{}, invalid("at", "must be given, because the recording has ended")
	case *m.At > most:
		return Entry{}, invalid("at", "must be at most %d, the recording's length in milliseconds", most)
	}
	e := Entry{At: *m.At, Time: began.Add(m.At.Duration()).UTC(), Type: TypeMarker, Marker: &m}
	m.At = nil
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return Entry{}, fmt.Errorf("timeline: %w", err)
	}
	defer f.Close()
	e, err = appendTo(f, e)
	if err != nil {
		return Entry{}, fmt.Errorf("timeline: %w", err)
	}
	return e, f.Sync()
}

// appendTo replaces a torn last line of a file by an entry.
func appendTo(f *os.File, e Entry) (Entry, error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxFile+1))
	switch {
	case err != nil:
		return Entry{}, err
	case len(text) > maxFile:
		return Entry{}, ErrFull
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	markers := newShares(maxFile).markers
	for line := range bytes.Lines(text[:whole]) {
		if old, ok := parse(line); ok {
			e.Seq = max(e.Seq, old.Seq)
			if old.Type == TypeMarker {
				markers.used += int64(len(line))
			}
		}
	}
	e.Seq++
	line, err := json.Marshal(e)
	if err != nil {
		return Entry{}, err
	}
	line = append(line, '\n')
	if whole+len(line) > maxFile || markers.used+int64(len(line)) > markers.limit {
		return Entry{}, ErrFull
	}
	if err := f.Truncate(int64(whole)); err != nil {
		return Entry{}, err
	}
	if _, err := f.WriteAt(line, int64(whole)); err != nil {
		return Entry{}, errors.Join(err, f.Truncate(int64(whole)))
	}
	return e, nil
}
