package process

import (
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// Stream says where output came from.
type Stream string

// The streams of a process. One in a terminal has Terminal alone, the others
// have the other two.
const (
	Stdout   Stream = "stdout"
	Stderr   Stream = "stderr"
	Terminal Stream = "pty"
)

// streams are the names by their number in records.
var streams = [...]Stream{Stdout, Stderr, Terminal}

const (
	stdout = iota
	stderr
	terminal
)

// Entry is a piece of a process's output, as it arrived.
type Entry struct {
	Sequence uint64 // from 1 on, without holes, never reused
	Stream   Stream
	Time     time.Time
	Data     []byte // not empty; shared, never to be changed
}

// Query selects entries.
type Query struct {
	Stream Stream // empty: all
	Since  uint64 // those after this sequence only
	Tail   *int   // of what remains, the last ones only; nil: all
}

const (
	// mergeWindow is how far apart two pieces may arrive to become one entry.
	mergeWindow = 10 * time.Millisecond

	// mergeSize is how long an entry of several pieces gets; a smaller part of
	// small logs, since entries are dropped whole.
	mergeSize = 32 << 10

	// entryRoom says how many entries a log may have: one for this many bytes of
	// its limit, as each takes up memory beside its bytes.
	entryRoom = 128
)

// Log is the output of a process: a ring of entries of which the oldest are
// dropped. Reading neither waits for the process nor delays it.
type Log struct {
	source *supervise.Child // of another group, to be asked; nil: intakes append

	mu      sync.Mutex
	limit   int // in bytes
	records ring
	next    uint64        // sequence of the next record
	end     int64         // bytes ever written
	size    int           // bytes kept
	seen    uint64        // no record up to this sequence may grow
	over    bool          // the process has ended
	final   place         // where it did
	changed chan struct{} // closed with the next change; nil when nobody waits
}

func newLog(limit int) *Log { return &Log{limit: limit, next: 1} }

// Entries returns what is kept, oldest first.
func (l *Log) Entries(q Query) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sync()
	l.seen = l.next - 1
	first := l.first()
	from := max(first, q.Since+1)
	if q.Since+1 == 0 { // none can be after the highest number
		from = l.next
	}
	entries := []Entry{}
	for i := l.records.count - 1; i >= 0 && first+uint64(i) >= from; i-- {
		if q.Tail != nil && len(entries) >= *q.Tail {
			break
		}
		r := l.records.at(i)
		if q.Stream == "" || q.Stream == streams[r.stream] {
			entries = append(entries, r.entry(first+uint64(i)))
		}
	}
	for i, j := 0, len(entries)-1; i < j; i, j = i+1, j-1 {
		entries[i], entries[j] = entries[j], entries[i]
	}
	return entries
}

// first is the sequence of the oldest record that is kept, or of the next one
// when there is none. The caller has l.mu, as for all below.
func (l *Log) first() uint64 { return l.next - uint64(l.records.count) }

// begin is how many bytes were dropped.
func (l *Log) begin() int64 {
	if l.records.count == 0 {
		return l.end
	}
	return l.records.at(0).offset
}

// push appends an entry.
func (l *Log) push(stream uint8, data []byte, now int64) {
	l.records.push(record{time: now, offset: l.end, data: data, stream: stream}, l.maxRecords())
	l.next++
	l.grew(len(data))
}

// grew is called when there are more bytes than before.
func (l *Log) grew(n int) {
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

// trim drops entries until the limits are kept. The last one is cut.
func (l *Log) trim() {
	for l.records.count > 1 && (l.size > l.limit || l.records.count > l.maxRecords()) {
		l.size -= len(l.records.at(0).data)
		l.records.drop()
	}
	if over := l.size - l.limit; over > 0 {
		r := l.records.at(0)
		r.data = r.data[over:]
		r.offset += int64(over)
		l.size = l.limit
	}
}

// setLimit changes how much is kept.
func (l *Log) setLimit(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
	l.trim()
}

// finish says that the process has ended. What is appended later comes from
// processes that it left.
func (l *Log) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished()
}

// shrink gives back what memory is only needed while much is appended.
func (l *Log) shrink() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records.fit()
}

func (l *Log) finished() {
	l.over, l.final = true, l.here()
	l.seen = l.next - 1
	l.wake()
}

// place is the end of a log at some moment.
type place struct {
	next uint64 // sequence of the next entry
	pos  int64  // bytes before it
}

func (l *Log) here() place { return place{next: l.next, pos: l.end} }

// maxChunk bounds the memory that is lost to what is free of a chunk, or hangs
// on its last entry.
func (l *Log) maxChunk() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit / 16
}

// weight is the memory that the log takes up, without what chunks have left.
func (l *Log) weight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size + l.records.weight()
}

// sync asks the child for what it wrote, if that is where it comes from.
func (l *Log) sync() <-chan struct{} {
	if l.source == nil {
		return nil
	}
	over := false
	select {
	case <-l.source.Done():
		over = true // so what follows is all that it wrote
	default:
	}
	data, total, changed := l.source.Since(l.end)
	if len(data) > 0 {
		l.end = total - int64(len(data)) // what is not kept there is lost
		l.push(stdout, data, time.Now().UnixNano())
	}
	if over && !l.over {
		l.finished()
	}
	return changed
}
