package process

import (
	"time"
	"unsafe"
)

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

// ring is a queue of records in a circular buffer.
type ring struct {
	slots []record
	head  int
	count int
}

// at returns the record at an index, counted from the oldest.
func (r *ring) at(i int) *record {
	if i += r.head; i >= len(r.slots) {
		i -= len(r.slots)
	}
	return &r.slots[i]
}

// push appends a record. The buffer grows by doubling, to at most limit+1 records.
func (r *ring) push(rec record, limit int) {
	if r.count == len(r.slots) {
		r.resize(max(r.count+1, min(2*r.count, limit+1), 4))
	}
	r.count++
	*r.at(r.count - 1) = rec
}

// drop removes the oldest record.
func (r *ring) drop() {
	*r.at(0) = record{} // lets its data go
	r.count--
	if r.head++; r.head == len(r.slots) {
		r.head = 0
	}
}

// fit frees unused slots.
func (r *ring) fit() { r.resize(r.count) }

func (r *ring) resize(n int) {
	slots := make([]record, n)
	for i := range r.count {
		slots[i] = *r.at(i)
	}
	r.slots, r.head = slots, 0
}

func (r *ring) weight() int { return len(r.slots) * int(unsafe.Sizeof(record{})) }
