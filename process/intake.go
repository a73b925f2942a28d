package process

import (
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// Sizes of the chunks of memory that output is read into. They grow with the output.
const (
	firstChunk = 4 << 10
	lastChunk  = 256 << 10
)

// intake receives a stream's output. Small pieces of output share a chunk of memory, which
// saves an allocation for each.
type intake struct {
	log    *Log
	stream uint8
	chunk  []byte // the free part of the current chunk
	size   int    // of the current chunk
	open   uint64 // the entry that ends where chunk begins, or 0
}

var _ supervise.Filler = (*intake)(nil)

// Space implements supervise.Filler.
func (in *intake) Space() []byte {
	// A short rest of a chunk would split output that fits into one entry.
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
func (in *intake) Write(b []byte) (int, error) { return fill(in, b) }

// append adds output of a stream. It extends the last entry if that ends where data
// begins, is not older than mergeWindow, and no reader has seen it.
func (l *Log) append(in *intake, data []byte) {
	now := time.Now().UnixNano()
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.open > l.seen && in.open == l.next-1 {
		last := &l.records[len(l.records)-1]
		size := len(last.data) + len(data)
		if now-last.time < int64(mergeWindow) && size <= min(mergeSize, l.limit/64) {
			last.data = last.data[:size]
			l.addBytes(len(data))
			return
		}
	}
	in.open = l.next
	l.push(in.stream, data, now)
}
