package eventlog

import (
	"context"
	"errors"
	"time"
)

// Cursor is a position in a stream, from which a follower reads at its own pace.
// It misses no event, delays no writer and costs nothing while it is not read. It
// is for one goroutine at a time and need not be closed.
type Cursor struct {
	log    *Log
	stream string
	seq    int64
}

// Follow returns a cursor after a sequence of a stream. It does not block. The stream may
// be empty. If the stream has not reached that sequence, [Cursor.Next] waits until it has
// passed it.
func (l *Log) Follow(stream string, after int64) *Cursor {
	return &Cursor{l, stream, after}
}

// Seq returns the sequence of the last event that Next has returned, or the one that was
// given to Follow.
func (c *Cursor) Seq() int64 { return c.seq }

// Next waits for at least one event and returns the next ones: at most 1000, and fewer if
// their payloads are large. It skips events that retention has dropped, so their
// sequences are missing. While Postgres is away it waits.
//
// It returns the error of ctx if ctx ends, and [ErrClosed] if the log is closed. An error
// does not move the cursor, and Next may be called again.
func (c *Cursor) Next(ctx context.Context) ([]Event, error) {
	l := c.log
	s := l.streams.acquire(c.stream)
	defer l.streams.release(s)
	for {
		if err := l.open(); err != nil {
			return nil, err
		}
		events, changed, err := c.poll(ctx, s)
		if errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
			select { // then try again to reach the database
			case <-time.After(250 * time.Millisecond):
			case <-ctx.Done():
			case <-l.streams.done:
			}
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

// poll returns the next events. If there are none, it returns a channel that is closed when
// there may be some.
func (c *Cursor) poll(ctx context.Context, s *stream) (events []Event, changed <-chan struct{}, err error) {
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
