package process

import (
	"slices"
	"sync"
)

// gate admits a number of callers concurrently, and the others in the order of their
// arrival.
type gate struct {
	mu      sync.Mutex
	limit   int
	inside  int
	closed  bool
	waiting []chan bool
}

// enter returns nil if the caller is admitted. Else it returns a channel that receives
// true when the caller is admitted, and false when the gate closes. A caller that
// stops waiting calls giveUp. An admitted caller calls leave.
func (g *gate) enter() chan bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed && len(g.waiting) == 0 && g.inside < g.limit {
		g.inside++
		return nil
	}
	w := make(chan bool, 1)
	if g.closed {
		w <- false
		return w
	}
	g.waiting = append(g.waiting, w)
	return w
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.admit()
}

// giveUp removes a waiting caller. If it was just admitted, the next caller is
// admitted instead.
func (g *gate) giveUp(w chan bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, w); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return
	}
	if passed := <-w; passed { // it received when it was removed from waiting
		g.inside--
		g.admit()
	}
}

func (g *gate) setLimit(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = n
	g.admit()
}

// close refuses all waiting and later callers.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, w := range g.waiting {
		w <- false
	}
	g.waiting = nil
}

func (g *gate) admit() {
	for len(g.waiting) > 0 && g.inside < g.limit {
		g.inside++
		g.waiting[0] <- true
		g.waiting = slices.Delete(g.waiting, 0, 1)
	}
}
