package agents

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// drainCheck is the time between checks of Drain.
const drainCheck = 20 * time.Millisecond

// Drain makes the host refuse new sessions and prompts with [ErrDraining], and waits until no
// agent has a request or a question without an answer. Messages that turns need to end are
// passed on. If other hosts share the log, Drain ends each agent that has none, so that another
// host can continue its sessions. It returns the error of ctx, or [ErrClosed] after Close, when
// the agents that it ends have ended. The host does not leave this state.
func (h *Host) Drain(ctx context.Context) error {
	h.capacity.draining.Store(true)
	check := time.NewTicker(drainCheck)
	defer check.Stop()
	var ending sync.WaitGroup
	defer ending.Wait()
	ended := map[string]bool{}
	for {
		select {
		case <-check.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.tasks.ctx.Done():
			return ErrClosed
		}
		busy := false
		for _, p := range h.servers.processes() {
			switch {
			case p.lifecycle.isBusy():
				busy = true
			case h.cfg.Log.Shared() && !ended[p.id]:
				ended[p.id] = true
				ending.Go(func() { p.end(endedServer) })
			}
		}
		if !busy {
			return nil
		}
	}
}

// isBusy reports whether a request or a question has no answer, in a process that has not ended.
func (l *lifecycle) isBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason == "" && l.open > 0
}

// beginsWork reports whether a message makes or opens a session, or begins a turn.
func beginsWork(env *envelope) bool {
	switch env.method {
	case "session/prompt", "session/load", "session/resume":
		return env.isRequest()
	}
	return isCreation(env.method)
}

// CanStart returns nil if another agent may start now. Otherwise it returns [ErrDraining],
// [ErrNoMemory] or an error that wraps [ErrTooManyAgents]. It does not block.
func (h *Host) CanStart() error { return h.capacity.check() }

// capacity decides whether a host may start another agent.
type capacity struct {
	maxAgents int          // 0: no limit
	minMemory int64        // bytes that must be free; 0: no limit
	draining  atomic.Bool  // Drain was called
	running   atomic.Int64 // agents, from the beginning of their start to their end
}

// check returns an error unless another agent may start.
func (c *capacity) check() error {
	switch {
	case c.draining.Load():
		return ErrDraining
	case c.maxAgents > 0 && c.running.Load() >= int64(c.maxAgents):
		return fmt.Errorf("%w (%d)", ErrTooManyAgents, c.maxAgents)
	case c.minMemory > 0 && supervise.AvailableMemory() < c.minMemory:
		return ErrNoMemory
	}
	return nil
}

// add counts an agent until alive is done. It returns an error unless the agent may start.
func (c *capacity) add(alive context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	if n := c.running.Add(1); c.maxAgents > 0 && n > int64(c.maxAgents) {
		c.running.Add(-1)
		return fmt.Errorf("%w (%d)", ErrTooManyAgents, c.maxAgents)
	}
	context.AfterFunc(alive, func() { c.running.Add(-1) })
	return nil
}
