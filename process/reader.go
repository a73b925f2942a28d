package process

import (
	"context"
	"io"
)

// What Next returns at once: enough to be quick, not so much that slow readers
// keep a log's memory alive which has moved on.
const (
	batchEntries = 256
	batchBytes   = 256 << 10
)

// Gap is what a reader has lost because it was too slow, or began too late.
type Gap struct {
	// Bytes were dropped. Zero if that cannot be told: only of a reader that
	// began after an entry which was dropped before.
	Bytes int64

	// Entries were dropped whole.
	Entries uint64
}

// Reader reads a log from some place on. It holds no place in the log, so it
// need not be closed, and it must not be used by two goroutines at once.
type Reader struct {
	log     *Log
	next    uint64 // sequence of the next entry
	pos     int64  // how many bytes of output come before what is read next; -1: not known
	end     place  // where io.EOF is, if ending
	ending  bool
	entries []Entry
}

// Follow returns a reader of the entries after that one: 0 for all that is
// kept and what comes.
func (l *Log) Follow(after uint64) *Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sync()
	r := &Reader{log: l, next: after + 1, pos: -1, ending: l.over, end: l.here()}
	if after+1 == 0 {
		r.next = after // the highest number; there will be no such entry
	}
	if after == 0 {
		r.pos = 0
	}
	l.seen = max(l.seen, min(after, l.next-1))
	if r.ending {
		l.seen = l.next - 1 // or the last entry could grow beyond the end
	}
	return r
}

// FollowBytes returns a reader that begins that many bytes before the present
// end, in the middle of an entry if need be: 0 for what comes from now on. A
// negative number, or one beyond what is kept, is all that is kept.
func (l *Log) FollowBytes(last int) *Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sync()
	l.seen = l.next - 1 // so that what comes is not part of an entry before
	r := &Reader{log: l, next: l.next, pos: max(l.end-int64(last), l.begin()), ending: l.over, end: l.here()}
	if last < 0 {
		r.pos = l.begin()
	}
	for i := l.records.count - 1; i >= 0 && r.pos < l.end; i-- {
		r.next = l.first() + uint64(i)
		if l.records.at(i).offset <= r.pos {
			break
		}
	}
	return r
}

// Next waits for entries and returns as many as are there, but not more than
// 256 or 256 KiB and one entry. The gap tells what was dropped before the first
// of them. At the end of the process's output, when all is read, it returns
// io.EOF, and a gap if there is one before the end. What processes write later
// that it left running is for readers that begin later.
//
// The slice is valid until the next call; what Data points to stays valid.
func (r *Reader) Next(ctx context.Context) ([]Entry, Gap, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, Gap{}, err
		}
		w := r.take()
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

// taken is what a reader finds: entries, the end, or channels to wait on.
type taken struct {
	entries                []Entry
	gap                    Gap
	over                   bool
	changed, source, ended <-chan struct{}
}

func (r *Reader) take() taken {
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
		return taken{entries: r.entries, gap: gap}
	}
	if r.ending {
		return taken{over: true, gap: gap}
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	t := taken{changed: l.changed, source: source}
	if l.source != nil {
		t.ended = l.source.Done()
	}
	return t
}

// collect moves the reader on over entries that it can have.
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
			// Only an end leaves no entry behind the gap that tells its size.
			gap.Bytes = r.end.pos - r.pos
		}
	}
	size := 0
	for r.next < end && len(r.entries) < batchEntries && size < batchBytes {
		rec := l.records.at(int(r.next - l.first()))
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
