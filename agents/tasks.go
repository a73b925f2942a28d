package agents

import (
	"context"
	"sync"
)

// taskGroup runs functions until a host is closed. After close none begins, and the context of
// those that run is done.
type taskGroup struct {
	ctx    context.Context //nolint:containedctx // of no call: until close
	cancel context.CancelFunc

	mu      sync.Mutex // guards what follows
	closed  bool
	running sync.WaitGroup // added to only while not closed
}

func newTaskGroup() *taskGroup {
	ctx, cancel := context.WithCancel(context.Background())
	return &taskGroup{ctx: ctx, cancel: cancel}
}

// start runs f in a goroutine, or returns ErrClosed.
func (g *taskGroup) start(f func(context.Context)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	g.running.Go(func() { f(g.ctx) })
	return nil
}

func (g *taskGroup) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

func (g *taskGroup) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.cancel()
}
