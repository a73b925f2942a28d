package x11

import (
	"runtime"
	"testing"
)

// TestQueueTellsDrops: a reader that is told of a value that was dropped sees its drop.
func TestQueueTellsDrops(t *testing.T) {
	t.Parallel()
	q := newQueue[int](0)
	next := make(chan bool)
	defer close(next)
	go func() {
		for range next {
			q.push(0)
		}
	}()
	for n := range int64(50_000) {
		next <- true
		for len(q.ready) == 0 { // a blocked reader would be too slow
			runtime.Gosched()
		}
		<-q.ready
		if q.take(); q.dropped() != n+1 {
			t.Fatalf("%d drops are seen after %d", q.dropped(), n+1)
		}
	}
}
