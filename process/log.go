package process

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/deskhand/deskhand/internal/supervise"
)

// Stream names the source of output.
type Stream string

// The streams of a process. A process in a terminal has Terminal only. Others have
// Stdout and Stderr.
const (
	Stdout   Stream = "stdout"
	Stderr   Stream = "stderr"
	Terminal Stream = "pty"
)

// streams are the names of the numbers in records.
var streams = [...]Stream{Stdout, Stderr, Terminal}

const (
	stdout = iota
	stderr
	terminal
)

// Entry is a piece of a process's output.
type Entry struct {
	Sequence uint64 // 1, 2, ...; never reused
	Stream   Stream
	Time     time.Time
	Data     []byte // not empty; shared and read-only
}

// record is a kept entry. Its sequence follows from its position.
type record struct {
	time   int64 // Unix nanoseconds
	offset int64 // bytes of output before it
	data   []byte
	stream uint8
}

func (r *record) entry(sequence uint64) Entry {
	n := len(r.data)
	return Entry{Sequence: sequence, Stream: streams[r.stream], Time: time.Unix(0, r.time), Data: r.data[:n:n]}
}

// Query selects entries.
type Query struct {
	Stream Stream // only this stream, unless empty
	Since  uint64 // only entries after this sequence
	Tail   *int   // only this many last entries, unless nil
}

const (
	// mergeWindow is the longest time between two pieces of one entry.
	mergeWindow = 10 * time.Millisecond

	// mergeSize is the maximum size of an entry of several pieces. It is smaller in
	// small logs, because entries are dropped whole.
	mergeSize = 32 << 10

	// entryRoom bounds the number of entries, which take memory in addition to their bytes:
	// a log may have one entry for this many bytes of its limit.
	entryRoom = 128
)

// Log is the output of a process: a queue of entries, of which the oldest are dropped.
// Readers never delay the process.
type Log struct {
	source *supervise.Child // a child of another group that has the output; nil: intakes append it

	mu      sync.Mutex
	limit   int           // in bytes
	records []record      // the oldest first
	next    uint64        // sequence of the next record
	end     int64         // bytes ever written
	size    int           // bytes kept
	seen    uint64        // records up to this sequence must not grow
	over    bool          // the process has ended
	final   place         // the end of the log at that moment
	changed chan struct{} // closed by the next change; nil without a waiting reader
}

func newLog(limit int) *Log { return &Log{limit: limit, next: 1} }

// Entries returns the kept entries that the query selects, oldest first.
func (l *Log) Entries(q Query) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sync()
	l.seen = l.next - 1
	first := l.first()
	from := max(first, q.Since+1)
	if q.Since+1 == 0 { // no entry follows the highest number
		from = l.next
	}
	entries := []Entry{}
	for i := len(l.records) - 1; i >= 0 && first+uint64(i) >= from; i-- {
		if q.Tail != nil && len(entries) >= *q.Tail {
			break
		}
		r := &l.records[i]
		if q.Stream == "" || q.Stream == streams[r.stream] {
			entries = append(entries, r.entry(first+uint64(i)))
		}
	}
	slices.Reverse(entries)
	return entries
}

// first returns the sequence of the oldest kept record, or of the next record if none
// is kept. The caller holds l.mu, as for the following methods without a lock.
func (l *Log) first() uint64 { return l.next - uint64(len(l.records)) }

// begin returns how many bytes were dropped.
func (l *Log) begin() int64 {
	if len(l.records) == 0 {
		return l.end
	}
	return l.records[0].offset
}

func (l *Log) push(stream uint8, data []byte, now int64) {
	l.records = append(l.records, record{time: now, offset: l.end, data: data, stream: stream})
	l.next++
	l.addBytes(len(data))
}

// addBytes counts n new bytes, drops old ones, and wakes readers.
func (l *Log) addBytes(n int) {
	l.end += int64(n)
	l.size += n
	l.trim()
	l.wake()
}

func (l *Log) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

func (l *Log) maxRecords() int { return max(16, l.limit/entryRoom) }

// trim drops the oldest entries until the log is within its limits. It cuts an entry that
// alone exceeds them.
func (l *Log) trim() {
	for len(l.records) > 1 && (l.size > l.limit || len(l.records) > l.maxRecords()) {
		l.size -= len(l.records[0].data)
		l.records[0] = record{} // frees its data
		l.records = l.records[1:]
	}
	if over := l.size - l.limit; over > 0 {
		r := &l.records[0]
		r.data = r.data[over:]
		r.offset += int64(over)
		l.size = l.limit
	}
}

// setLimit changes how many bytes are kept.
func (l *Log) setLimit(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
	l.trim()
}

// finish records the end of the process. Later output comes from processes that it started.
func (l *Log) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setOver()
}

// shrink frees memory that is only needed while output arrives.
func (l *Log) shrink() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = slices.Clone(l.records)
}

// setOver records the end of the process. The caller holds l.mu.
func (l *Log) setOver() {
	l.over, l.final = true, l.endPlace()
	l.seen = l.next - 1
	l.wake()
}

// place is a position in a log.
type place struct {
	next uint64 // sequence of the next entry
	pos  int64  // bytes before it
}

func (l *Log) endPlace() place { return place{next: l.next, pos: l.end} }

// maxChunk bounds the size of a chunk. The free part of a chunk is lost, and the chunk stays
// in memory as long as its last entry.
func (l *Log) maxChunk() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit / 16
}

// weight returns the memory that the log takes, without free parts of chunks.
func (l *Log) weight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size + cap(l.records)*int(unsafe.Sizeof(record{}))
}

// sync reads new output from the source, if there is one.
func (l *Log) sync() <-chan struct{} {
	if l.source == nil {
		return nil
	}
	over := false
	select {
	case <-l.source.Done():
		over = true // Since returns all of its output
	default:
	}
	data, total, changed := l.source.Since(l.end)
	if len(data) > 0 {
		l.end = total - int64(len(data)) // skips output that the child does not keep
		l.push(stdout, data, time.Now().UnixNano())
	}
	if over && !l.over {
		l.setOver()
	}
	return changed
}
