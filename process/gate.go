package process

import (
	"slices"
	"sync"
)

// gate lets a number of callers through at once, the others in the order in
// which they came.
type gate struct {
	mu      sync.Mutex
	limit   int
	inside  int
	closed  bool
	waiting []chan bool
}

// enter returns nil to one who may pass, or what to wait on: true lets pass,
// false says that the gate is closed. Who does not want to wait any more calls
// giveUp; who has passed calls leave.
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

// leave lets the next one pass.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.admit()
}

// giveUp takes one off the line, or lets the next one pass in its stead.
func (g *gate) giveUp(w chan bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, w); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return
	}
	if passed := <-w; passed { // buffered, and sent to when it left the line
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

// close sends all away who wait.
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
