package eventlog

import (
	"context"
	"errors"
	"time"
)

// Cursor is a place in a stream, from which a follower reads at its own pace.
// It misses no event, delays no writer and costs nothing while it is not read. It
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
		events, changed, err := c.look(ctx, s)
		if errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
			c.pause(ctx)
			continue
		}
		if err != nil {
			return nil, err
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

// look returns the events that follow, or what tells when to look again.
func (c *Cursor) look(ctx context.Context, s *stream) (events []Event, changed <-chan struct{}, err error) {
	for {
		if err := c.log.load(ctx, s); err != nil {
			return nil, nil, err
		}
		events, behind, changed := s.after(c.seq, pageEvents)
		if !behind {
			return events, changed, nil
		}
		events, err := c.log.page(ctx, c.stream, c.seq, pageEvents)
		if err != nil || len(events) > 0 {
			return events, nil, err
		}
		c.log.streams.forget(c.stream) // it was deleted meanwhile
	}
}

// pause waits until it is worth to look whether the database is back.
func (c *Cursor) pause(ctx context.Context) {
	timer := time.NewTimer(250 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.log.streams.done:
	}
}
