package rest

import (
	"io"
	"sync"
)

// FlushTracker is the body of an event stream. It reports which events have been
// written to the client's connection.
//
// A flush of the stream's writer does not say that: it hands the bytes over to
// fasthttp, which sends them from another goroutine. But fasthttp reads a body piece
// by piece, and flushes each piece to the connection before it reads the next one. So
// when it reads again, all that it has read before is written.
type FlushTracker struct {
	// sent is called when an event, and all before it, have been written.
	Sent func(seq int64)

	body io.ReadCloser // the stream; set before the first Read
	read int64         // bytes of it

	mu    sync.Mutex  // guards the fields below
	marks []flushMark // events that were not reported yet, in order
}

// flushMark says that the stream's first bytes end with an event.
type flushMark struct{ bytes, seq int64 }

// Mark records that the first bytes of the stream, which were written to the stream's
// writer, end with an event.
func (t *FlushTracker) Mark(bytes, seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.marks); n == 0 || t.marks[n-1].seq < seq {
		t.marks = append(t.marks, flushMark{bytes, seq})
	}
}

// Read implements [io.Reader] for fasthttp.
func (t *FlushTracker) Read(p []byte) (int, error) {
	t.report()
	n, err := t.body.Read(p)
	t.read += int64(n)
	return n, err
}

// report reports the newest event among the bytes that were read.
func (t *FlushTracker) report() {
	t.mu.Lock()
	n := 0
	for n < len(t.marks) && t.marks[n].bytes <= t.read {
		n++
	}
	passed := t.marks[:n]
	t.marks = t.marks[n:]
	t.mu.Unlock()
	if n > 0 {
		t.Sent(passed[n-1].seq)
	}
}

// Close implements [io.Closer].
func (t *FlushTracker) Close() error { return t.body.Close() }
