package x11

import "sync"

// queue passes values from a goroutine that must not block to a goroutine that may.
type queue[T any] struct {
	ready chan struct{} // holds a token while there may be values, or drops that were not seen
	limit int

	mu    sync.Mutex
	list  []T
	drops int64 // values for which there was no room
}

// newQueue makes a queue that holds at most limit values.
func newQueue[T any](limit int) *queue[T] {
	return &queue[T]{ready: make(chan struct{}, 1), limit: limit}
}

// push adds a value. It returns false if the queue is full.
func (q *queue[T]) push(v T) bool {
	q.mu.Lock()
	full := len(q.list) >= q.limit
	if full {
		q.drops++
	} else {
		q.list = append(q.list, v)
	}
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return !full
}

// take removes and returns the values.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// dropped returns the number of values for which there was no room.
func (q *queue[T]) dropped() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.drops
}
