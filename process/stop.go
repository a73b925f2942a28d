package process

import (
	"context"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a process has between SIGTERM and SIGKILL.
	stopGrace = 10 * time.Second

	// shortWait is the default wait of Stop and Kill.
	shortWait = 25 * time.Millisecond
)

// ending is a running stop.
type ending struct {
	kill context.CancelFunc // makes it send SIGKILL
	over chan struct{}      // closed when the stop has ended
}

// Stop sends SIGTERM to the process and the processes that it started. If the process has
// a terminal and ignores SIGTERM, as shells do, Stop also sends SIGHUP to its process
// group. After 10 s, or after wait if that is longer, Stop kills the processes that are
// left. During a running stop, another Stop only waits.
//
// Stop returns the process's state when the process has ended, after wait (zero: 25 ms;
// negative: immediately), or when ctx ends. The stop continues in the background. For an
// ended process, Stop ends the processes that it left running.
func (p *Process) Stop(ctx context.Context, wait time.Duration) Info {
	p.end(max(stopGrace, wait), false)
	return p.await(ctx, wait)
}

// Kill sends SIGKILL to the process and the processes that it started, also during a
// running Stop. It returns like Stop: the process may still run after wait.
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

// end ends the process in the background, with SIGKILL immediately if now is set.
func (p *Process) end(grace time.Duration, now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending != nil {
		select {
		case <-p.ending.over:
		default:
			if now {
				p.ending.kill()
			}
			return
		}
	}
	if p.m.addWork() != nil {
		return // Close ends it
	}
	ctx, cancel := context.WithCancel(p.m.ctx)
	if now {
		cancel()
	}
	e := &ending{kill: cancel, over: make(chan struct{})}
	p.ending = e
	go func() {
		defer p.m.work.Done()
		defer close(e.over)
		defer cancel()
		if err := p.child.StopWithin(ctx, grace); err != nil {
			p.m.cfg.Logger.Debug("a process could not be ended", "id", p.id, "error", err)
		}
	}()
}
