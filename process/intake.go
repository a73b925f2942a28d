package process

import (
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// The size of the memory that is taken at once: what is quiet gets little, and
// what writes much gets much.
const (
	firstChunk = 4 << 10
	lastChunk  = 256 << 10
)

// intake is where a stream's output arrives: memory which pieces are read into
// one behind the other, so that many small ones cost no allocation each.
type intake struct {
	log    *Log
	stream uint8
	chunk  []byte // what is free of the current chunk
	size   int    // of the current chunk
	open   uint64 // the entry that ends where chunk begins, 0: none
}

var _ supervise.Filler = (*intake)(nil)

// Space implements supervise.Filler.
func (in *intake) Space() []byte {
	// A short rest would cut what could be one piece.
	if len(in.chunk) < min(in.size/4, firstChunk) || in.size == 0 {
		in.size = max(firstChunk, min(2*in.size, lastChunk, in.log.maxChunk()))
		in.chunk = make([]byte, in.size)
		in.open = 0
	}
	return in.chunk
}

// Filled implements supervise.Filler.
func (in *intake) Filled(n int) {
	data := in.chunk[:n] // with the rest of the chunk as its capacity
	in.chunk = in.chunk[n:]
	in.log.append(in, data)
}

// Write implements supervise.Filler.
func (in *intake) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := copy(in.Space(), rest)
		in.Filled(n)
		rest = rest[n:]
	}
	return len(b), nil
}

// append takes what arrived on a stream. If the last entry ends where it
// begins, is of a moment ago, and nobody has seen it, it becomes part of that.
func (l *Log) append(in *intake, data []byte) {
	now := time.Now().UnixNano()
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.open > l.seen && in.open == l.next-1 {
		last := l.records.at(l.records.count - 1)
		size := len(last.data) + len(data)
		if now-last.time < int64(mergeWindow) && size <= min(mergeSize, l.limit/64) {
			last.data = last.data[:size]
			l.grew(len(data))
			return
		}
	}
	in.open = l.next
	l.push(in.stream, data, now)
}
