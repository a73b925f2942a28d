package recording

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
)

// maxLine bounds the lines that are read. Those that are written are shorter:
// a Data of 64 KiB, or 4096 characters of text, with every one escaped.
const maxLine = 512 << 10

// What is beyond these was not written by a timeline.
const (
	maxSeq = 1 << 53 // larger ones are not exact in JavaScript
	maxAt  = Milliseconds(1 << 40)
)

// readEntries reads the entries of a timeline that have a higher number. A last
// line that was torn by a crash is left out, and so is any other that is not an
// entry. An error comes last.
func readEntries(r io.Reader, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		in := bufio.NewReaderSize(r, maxLine)
		for {
			line, err := in.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				if err = skipLine(in); err == nil {
					continue
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("timeline: %w", err))
				return
			}
			seq, quick := quickSeq(line)
			if quick && seq <= after {
				continue
			}
			e, ok := parseEntry(line)
			if ok && e.Seq > after && (!quick || e.Seq == seq) && !yield(e, nil) {
				return
			}
		}
	}
}

// skipLine reads to the end of a line.
func skipLine(in *bufio.Reader) error {
	for {
		if _, err := in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// quickSeq reads the number of an entry as this package writes it, which comes
// first, so that what is not wanted need not be decoded.
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

func parseEntry(line []byte) (Entry, bool) {
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, false
	}
	return e, e.Seq > 0 && e.Seq < maxSeq && e.Type != "" && e.At >= 0 && e.At < maxAt
}

// fileEntries is readEntries of a file. One that is not there has no entries.
func fileEntries(path string, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer f.Close()
		for e, err := range readEntries(f, after) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// chronological is what of some entries passes keep, by the time at which it
// happened, by the wall's clock within a millisecond. In the file an action comes
// after what it caused, because it is told when it is done. What happened after the last picture counts as the last thing
// in the video; an end of zero is none.
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
			e.Data = nil // no cue has it
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.At, b.At), a.Time.Compare(b.Time)) })
	return all, nil
}

// appendEntry adds an entry to the timeline of a recording that has ended. The
// caller sees to it that only one does.
func appendEntry(path string, e Entry) (Entry, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
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

func appendTo(f *os.File, e Entry) (Entry, error) {
	info, err := f.Stat()
	if err != nil {
		return Entry{}, err
	}
	whole, last, err := lastEntry(f, info.Size())
	if err != nil {
		return Entry{}, err
	}
	e.Seq = last + 1
	line, err := json.Marshal(e)
	if err != nil {
		return Entry{}, err
	}
	if whole+int64(len(line)) >= timelineLimit {
		return Entry{}, ErrTimelineFull
	}
	if err := f.Truncate(whole); err != nil {
		return Entry{}, err
	}
	if _, err := f.WriteAt(append(line, '\n'), whole); err != nil {
		return Entry{}, errors.Join(err, f.Truncate(whole))
	}
	return e, nil
}

// lastEntry finds where the last whole line ends, and the highest number that is
// in use. It looks at the end of the file alone, unless there is no entry.
func lastEntry(f io.ReaderAt, size int64) (whole int64, last uint64, err error) {
	for window := int64(2 * maxLine); ; window *= 8 {
		from := max(0, size-window)
		tail := make([]byte, size-from)
		if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		end := bytes.LastIndexByte(tail, '\n') + 1
		for line := range bytes.Lines(tail[:end]) {
			if e, ok := parseEntry(line); ok {
				last = max(last, e.Seq)
			}
		}
		if last > 0 || from == 0 {
			return from + int64(end), last, nil
		}
	}
}
