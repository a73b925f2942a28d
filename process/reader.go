package process

import (
	"context"
	"io"
)

// Bounds of what Next returns. They are large enough to be fast, and so small that slow
// readers keep little dropped output in memory.
const (
	batchEntries = 256
	batchBytes   = 256 << 10
)

// Gap is the output that was dropped before a reader could read it.
type Gap struct {
	// Bytes is the number of dropped bytes. It is zero if that is unknown, which
	// happens only to a reader that began after an entry that was already dropped.
	Bytes int64

	// Entries is the number of entries that were dropped whole.
	Entries uint64
}

// Reader reads a log from a position to the end. It need not be closed. Its methods must
// not be called concurrently.
type Reader struct {
	log     *Log
	next    uint64 // sequence of the next entry
	pos     int64  // bytes of output before the next entry, or -1 if unknown
	earlier int64  // bytes of output between the position at first and the end at that time
	end     place  // of io.EOF, if ending
	ending  bool
	entries []Entry
}

// Follow returns a reader of the entries after a sequence. 0 selects all kept entries
// and all later ones.
func (l *Log) Follow(after uint64) *Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sync()
	r := &Reader{log: l, next: after + 1, pos: -1, ending: l.over, end: l.endPlace()}
	if after+1 == 0 {
		r.next = after // the highest number, which no entry reaches
	}
	if after == 0 {
		r.pos = 0
	}
	l.seen = max(l.seen, min(after, l.next-1))
	if r.ending {
		l.seen = l.next - 1 // else the last entry could grow beyond the end
	}
	return r
}

// FollowBytes returns a reader that begins last bytes before the current end, possibly in
// the middle of an entry. 0 selects later output only. A negative number, or more than is
// kept, selects all kept output and all later output.
func (l *Log) FollowBytes(last int) *Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sync()
	l.seen = l.next - 1 // later output begins a new entry
	r := &Reader{log: l, next: l.next, pos: max(l.end-int64(last), l.begin()), ending: l.over, end: l.endPlace()}
	if last < 0 {
		r.pos = l.begin()
	}
	r.earlier = l.end - r.pos
	for i := len(l.records) - 1; i >= 0 && r.pos < l.end; i-- {
		r.next = l.first() + uint64(i)
		if l.records[i].offset <= r.pos {
			break
		}
	}
	return r
}

// Earlier returns how many bytes of a reader of FollowBytes are earlier output. Next
// returns them, or counts them in a gap, before later output.
func (r *Reader) Earlier() int64 { return r.earlier }

// Next waits for entries and returns the available ones, at most 256 entries, and at most
// 256 KiB and one entry. The gap is what was dropped before the first of them.
//
// After the last entry of the process, Next returns io.EOF, and a gap if the end was
// dropped. It returns the error of ctx when ctx ends. Output that arrives after the
// process's end, from processes that it started, is only for readers that begin later.
//
// The slice is valid until the next call. Data stays valid.
func (r *Reader) Next(ctx context.Context) ([]Entry, Gap, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, Gap{}, err
		}
		w := r.read()
		if len(w.entries) > 0 {
			return w.entries, w.gap, nil
		}
		if w.over {
			return nil, w.gap, io.EOF
		}
		select {
		case <-w.changed:
		case <-w.source:
		case <-w.ended:
		case <-ctx.Done():
			return nil, Gap{}, ctx.Err()
		}
	}
}

// readResult holds entries, the end, or channels to wait on.
type readResult struct {
	entries                []Entry
	gap                    Gap
	over                   bool
	changed, source, ended <-chan struct{}
}

// read returns the available entries without waiting.
func (r *Reader) read() readResult {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	source := l.sync()
	if l.over && !r.ending {
		r.ending, r.end = true, l.final
	}
	r.entries = r.entries[:0]
	gap := r.collect()
	if len(r.entries) > 0 {
		l.seen = max(l.seen, r.next-1)
		return readResult{entries: r.entries, gap: gap}
	}
	if r.ending {
		return readResult{over: true, gap: gap}
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	t := readResult{changed: l.changed, source: source}
	if l.source != nil {
		t.ended = l.source.Done()
	}
	return t
}

// collect appends the available entries to r.entries, and returns the output that was dropped
// before them.
func (r *Reader) collect() Gap {
	l := r.log
	var gap Gap
	end := l.next
	if r.ending {
		end = r.end.next
	}
	if first := min(l.first(), end); r.next < first {
		gap.Entries = first - r.next
		r.next = first
		if first == end && r.pos >= 0 {
			// No entry follows the gap, so the end of the log gives its size.
			gap.Bytes = r.end.pos - r.pos
		}
	}
	size := 0
	for r.next < end && len(r.entries) < batchEntries && size < batchBytes {
		rec := &l.records[r.next-l.first()]
		e := rec.entry(r.next)
		if r.pos >= 0 && r.pos < rec.offset {
			gap.Bytes += rec.offset - r.pos
		}
		if r.pos > rec.offset {
			e.Data = e.Data[r.pos-rec.offset:]
		}
		r.entries = append(r.entries, e)
		r.next++
		r.pos = rec.offset + int64(len(rec.data))
		size += len(e.Data)
	}
	return gap
}
