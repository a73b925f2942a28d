package agents

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// deliver passes on what is committed: to the agent's input and to waiting callers.
// The followers of the server read the log.
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

// maxUnread is how many messages an agent may leave unread before the host stops to
// answer the agent's questions itself. Those answers have no other bound.
const maxUnread = 4096

func (o *outbox) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unread >= maxUnread
}

type outgoing struct {
	line   []byte // without its end
	weight int64  // of the semaphore that is released then
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

// run writes until done is closed. When the agent reads no more, run drops the rest:
// the followers are told of the agent's end.
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

// await waits for the end of a call.
func (p *agentProcess) await(ctx context.Context, c *call) ([]byte, error) {
	select {
	case r := <-c.reply:
		return r.raw, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
	}
	select {
	case r := <-c.reply:
		return r.raw, r.err
	default:
		return nil, p.exitError()
	}
}

// finish ends a call. Only the first reply counts.
func (c *call) finish(r reply) {
	select {
	case c.reply <- r:
	default:
	}
}

// answered ends a call with an answer. Unless the call is the host's own, fx has
// published the answer as its last event.
func (c *call) answered(fx *effects, answer []byte) {
	if n := len(fx.events); n > 0 && !c.internal {
		c.seq = fx.events[n-1].Seq
	}
	c.finish(reply{raw: answer})
}
