package eventlog

import "context"

// Cursor is a place in a stream, from which a follower reads at its own pace.
// It loses nothing, holds nobody up and costs nothing while it is not read. It
// is for one goroutine at a time and need not be closed.
type Cursor struct {
	log    *Log
	stream string
	seq    int64
}

// Follow returns a cursor behind a sequence of a stream, which may be empty as
// yet. If that sequence is not reached yet, the cursor waits until it is passed.
func (l *Log) Follow(stream string, after int64) *Cursor {
	return &Cursor{l, stream, after}
}

// Seq is the sequence of the last event that Next has returned, or that which
// Follow was given.
func (c *Cursor) Seq() int64 { return c.seq }

// Next returns the events that follow, at least one and at most a page, and
// waits for it if there is none yet. Events that retention has dropped are
// skipped, which shows in the sequence. While Postgres is away it waits.
// After an error, which moves nothing, it may be called again; that of a closed
// log is [ErrClosed].
func (c *Cursor) Next(ctx context.Context) ([]Event, error) {
	l := c.log
	s := l.streams.acquire(c.stream)
	defer l.streams.release(s)
	for {
		if err := l.open(); err != nil {
			return nil, err
		}
		if err := l.load(ctx, s); err != nil {
			return nil, err
		}
		events, behind, changed := s.after(c.seq, pageEvents)
		if behind {
			var err error
			if events, err = l.page(ctx, c.stream, c.seq, pageEvents); err != nil {
				return nil, err
			}
			if len(events) == 0 { // the stream was deleted meanwhile
				l.streams.forget(c.stream)
				continue
			}
		}
		if len(events) > 0 {
			c.seq = events[len(events)-1].Seq
			return events, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.streams.done:
			return nil, ErrClosed
		}
	}
}
