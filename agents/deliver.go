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
func (b *commitBatch) deliver() {
	for _, fx := range b.effects {
		for _, f := range fx.deliver {
			f()
		}
	}
}

// outbox holds the messages on their way to an agent, in the order of put. put does not
// block, because the agent may itself wait for its output to be read. Instead, clients
// reserve room before their messages are accepted.
type outbox struct {
	wake chan struct{}
	room *semaphore.Weighted // bytes of clients' messages that the agent has not read

	mu     sync.Mutex // guards the fields below
	queue  []outgoing
	unread int // the sizes of the host's own messages in queue, and of what is being written
}

func newOutbox(room int64) *outbox {
	return &outbox{wake: make(chan struct{}, 1), room: semaphore.NewWeighted(room)}
}

// maxUnread is the size of the host's own messages that the agent has not read from which on the
// host stops to answer questions itself. These answers have no other bound. A message counts as at
// least minUnread.
const (
	maxUnread = 4 << 20
	minUnread = 1 << 10
)

func (o *outbox) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unread >= maxUnread
}

type outgoing struct {
	line   []byte // without its end
	weight int64  // in room; 0: it is the host's own
}

// size returns the size of a message of the host, or 0.
func (m outgoing) size() int {
	if m.weight > 0 {
		return 0
	}
	return max(len(m.line), minUnread)
}

// reserve waits until the agent has read enough for one more message of that weight. It
// returns the error of ctx, also if alive ends, after which the agent reads nothing.
func (o *outbox) reserve(ctx, alive context.Context, weight int64) error {
	if o.room.TryAcquire(weight) {
		return nil
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(alive, cancel)()
	return o.room.Acquire(wait, weight)
}

func (o *outbox) put(line []byte, weight int64) {
	m := outgoing{line, weight}
	o.mu.Lock()
	o.queue = append(o.queue, m)
	o.unread += m.size()
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
func (o *outbox) run(in io.Writer, done <-chan struct{}, log *slog.Logger) {
	closed := false
	for {
		select {
		case <-o.wake:
		case <-done:
			return
		}
		for _, out := range o.takeAll() {
			if !closed {
				_, err := in.Write(append(slices.Clip(out.line), '\n'))
				if closed = err != nil; closed && !isBrokenPipe(err) {
					log.Error("write to agent", "error", err)
				}
			}
			o.room.Release(out.weight)
			o.mu.Lock()
			o.unread -= out.size()
			o.mu.Unlock()
		}
	}
}
