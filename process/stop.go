package process

import (
	"context"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a process has between SIGTERM and SIGKILL.
	stopGrace = 10 * time.Second

	// shortWait is how long Stop and Kill wait when they are not told.
	shortWait = 25 * time.Millisecond
)

// ending is a stop that is under way.
type ending struct {
	hurry context.CancelFunc // makes it kill
	over  chan struct{}
}

// Stop asks the process and all in its process group to end (SIGTERM, and SIGHUP
// if it has a terminal and ignores the other, as shells do), and kills it and
// all that it started after 10 s, or after wait if that is longer. It returns
// how the process is when it has ended, or after wait (zero: 25 ms; negative: at
// once) or when ctx ends; the rest is done in the background.
//
// Of a process that has ended, what it left running is ended in the same way.
func (p *Process) Stop(ctx context.Context, wait time.Duration) Info {
	p.end(max(stopGrace, wait), false)
	return p.await(ctx, wait)
}

// Kill kills the process and all that it started (SIGKILL). It returns as Stop
// does.
func (p *Process) Kill(ctx context.Context, wait time.Duration) Info {
	_ = p.child.Signal(syscall.SIGKILL)
	p.end(0, true)
	return p.await(ctx, wait)
}

// await waits for the end of the process.
func (p *Process) await(ctx context.Context, wait time.Duration) Info {
	if wait == 0 {
		wait = shortWait
	}
	t := time.NewTimer(max(0, wait))
	defer t.Stop()
	select {
	case <-p.Done():
	case <-t.C:
	case <-ctx.Done():
	}
	return p.Info()
}

// end sees to it that the process ends, in the background.
func (p *Process) end(grace time.Duration, now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending != nil {
		select {
		case <-p.ending.over:
		default:
			if now {
				p.ending.hurry()
			}
			return
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if now {
		cancel()
	}
	e := &ending{hurry: cancel, over: make(chan struct{})}
	if !p.m.note(e) {
		cancel()
		return // Close ends it
	}
	p.ending = e
	go func() {
		defer p.m.strike(e)
		defer cancel()
		if err := p.child.StopWithin(ctx, grace); err != nil {
			p.m.cfg.Logger.Debug("a process could not be ended", "id", p.id, "error", err)
		}
	}()
}

// note keeps Close waiting for an ending. It returns false after Close.
func (m *Manager) note(e *ending) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.work.Add(1)
	m.endings[e] = struct{}{}
	return true
}

func (m *Manager) strike(e *ending) {
	close(e.over)
	m.mu.Lock()
	delete(m.endings, e)
	m.mu.Unlock()
	m.work.Done()
}

// hurry makes those kill that are under way. After the manager's own processes
// have ended, these are stops of other parts' processes.
func (m *Manager) hurry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := range m.endings {
		e.hurry()
	}
}
