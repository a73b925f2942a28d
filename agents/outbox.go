package agents

import (
	"io"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// outbox holds what is on its way to an agent. Putting something in never
// waits, since the agent may itself wait for its output to be read; how much
// there can be is bounded by those who send.
type outbox struct {
	wake chan struct{}

	mu     sync.Mutex // guards what follows
	queue  []outgoing
	unread int // of queue, and of what is being written
}

// maxUnread is how many messages an agent may leave unread before the host gives
// no answers of its own any more, which nobody else bounds.
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

func (o *outbox) take() []outgoing {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queue
	o.queue = nil
	return q
}

// run writes until done is closed. When the agent reads no more, the rest is
// dropped: its end will be told.
func (o *outbox) run(in io.Writer, done <-chan struct{}, weights *semaphore.Weighted, log *slog.Logger) {
	deaf := false
	for {
		select {
		case <-o.wake:
		case <-done:
			return
		}
		for _, out := range o.take() {
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
