package agents

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// deliver passes on a committed batch to the agent's input and to waiting callers. The
// followers of the server read the log.
func (p *agentProcess) deliver(b *commitBatch) {
	for _, fx := range b.effects {
		for _, f := range fx.deliver {
			f()
		}
	}
}

// outbox holds the messages on their way to an agent. put does not block, because
// the agent may itself wait for its output to be read. agentProcess.inputs bounds
// how many bytes it holds.
type outbox struct {
	wake chan struct{}

	mu     sync.Mutex // guards what follows
	queue  []outgoing
	unread int // of queue, and of what is being written
}

// maxUnread is the number of messages that the agent has not read from which on the host
// stops to answer questions itself. These answers have no other bound.
const maxUnread = 4096

func (o *outbox) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unread >= maxUnread
}

type outgoing struct {
	line   []byte // without its end
	weight int64  // in agentProcess.inputs
}

func (o *outbox) put(line []byte, weight int64) {
	o.mu.Lock()
	o.queue = append(o.queue, outgoing{line, weight})
	o.unread++
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) takeAll() []outgoing {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queue
	o.queue = nil
	return q
}

// run writes until done is closed. After the agent has closed its input, run drops
// messages.
func (o *outbox) run(in io.Writer, done <-chan struct{}, weights *semaphore.Weighted, log *slog.Logger) {
	deaf := false
	for {
		select {
		case <-o.wake:
		case <-done:
			return
		}
		for _, out := range o.takeAll() {
			if !deaf {
				_, err := in.Write(append(slices.Clip(out.line), '\n'))
				if deaf = err != nil; deaf && !broken(err) {
					log.Error("write to agent", "error", err)
				}
			}
			weights.Release(out.weight)
			o.mu.Lock()
			o.unread--
			o.mu.Unlock()
		}
	}
}

func (p *agentProcess) await(ctx context.Context, c *call) ([]byte, error) {
	if _, err := receive(ctx, p, c.over); err != nil {
		return nil, err
	}
	return c.result.raw, c.result.err
}

// awaitCommit waits until a call is in the log.
func (p *agentProcess) awaitCommit(ctx context.Context, c *call) error {
	select {
	case <-c.accepted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.over:
	case <-p.done:
	}
	switch {
	case isClosed(c.accepted):
		return nil
	case isClosed(c.over):
		return c.result.err
	}
	return p.exitError()
}

// receive waits for a value of ch. It returns an error if the process ends before that.
func receive[T any](ctx context.Context, p *agentProcess, ch <-chan T) (v T, err error) {
	select {
	case v = <-ch:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	case <-p.done:
	}
	select {
	case v = <-ch:
		return v, nil
	default:
		return v, p.exitError()
	}
}
