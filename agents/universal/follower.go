package universal

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// Follower reads the events of a session, and waits for new ones. It is for one goroutine
// at a time, and needs no Close.
type Follower struct {
	projection *Projection
	entries    *eventlog.Cursor // after the entries that existed when Follow was called
	after      int64            // the last event that Next has returned
	isLast     func(Event) bool
	ended      bool
}

const (
	// followPage is how many events Next returns at most. The first events of a
	// long history come before the last ones are made.
	followPage = 1000

	// storeRetry is how long Next waits before it tries again to store events,
	// while the log refuses them.
	storeRetry = 2 * time.Second
)

// Follow returns a follower of the events after a number. It does not wait for events.
func (p *Projection) Follow(ctx context.Context, after int64) (*Follower, error) {
	newest, err := p.log.Last(ctx, agents.SessionStream(p.id))
	if err != nil {
		return nil, err
	}
	return &Follower{
		projection: p, after: after, entries: p.log.Follow(agents.SessionStream(p.id), newest),
		isLast: func(Event) bool { return false },
	}, nil
}

// FollowTurn returns a follower of the turn that an entry of the session began, from its
// first event to its end. It first calls [Projection.CatchUp], and fails if that does. If the
// entry began no turn, the follower does not end.
func (p *Projection) FollowTurn(ctx context.Context, entry int64) (*Follower, error) {
	// The turn's events come after the events of all entries before it.
	if err := p.CatchUp(ctx); err != nil {
		return nil, err
	}
	after, err := p.lastBefore(ctx, entry)
	if err != nil {
		return nil, err
	}
	f, err := p.Follow(ctx, after)
	if err == nil {
		f.isLast = endOf(entry)
	}
	return f, err
}

// Next waits for at least one event and returns the next ones, at most 1000. A follower of a
// turn returns [io.EOF] after the turn's last event. While the log is full or locked, Next
// waits. It returns the error of ctx if ctx ends, and otherwise the errors of package
// eventlog. After an error it can be called again.
func (f *Follower) Next(ctx context.Context) ([]Event, error) {
	for !f.ended {
		behind := f.projection.catchUpTo(ctx, f.after+followPage)
		if behind != nil && !cannotStore(behind) {
			return nil, behind
		}
		events, err := readEvents(ctx, f.projection.log, f.projection.id, f.after, followPage)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(events, f.isLast); i >= 0 {
			events, f.ended = events[:i+1], true
		}
		if n := len(events); n > 0 {
			f.after = events[n-1].Sequence
			return events, nil
		}
		if err := f.wait(ctx, behind != nil); err != nil {
			return nil, err
		}
	}
	return nil, io.EOF
}

// wait waits for the next entry, or for storeRetry if events could not be stored.
func (f *Follower) wait(ctx context.Context, retry bool) error {
	wait, stop := ctx, func() {}
	if retry {
		wait, stop = context.WithTimeout(ctx, storeRetry)
	}
	defer stop()
	_, err := f.entries.Next(wait)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// lastBefore returns the number of the last event that an entry before that one
// made.
func (p *Projection) lastBefore(ctx context.Context, entry int64) (int64, error) {
	last, err := p.Count(ctx)
	if err != nil {
		return 0, err
	}
	low, high := int64(0), last
	for low < high { // entries do not go down from event to event
		middle := (low + high) / 2
		e, err := readEvents(ctx, p.log, p.id, middle, 1)
		if err != nil {
			return 0, err
		}
		if len(e) == 1 && e[0].Entry < entry {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// endOf returns a function that gets the events in order and reports whether an event
// ends the turn that an entry began.
func endOf(entry int64) func(Event) bool {
	id := ""
	return func(e Event) bool {
		var d struct {
			ID string `json:"turn_id"`
		}
		switch e.Type {
		case TurnStarted, TurnEnded:
			if json.Unmarshal(e.Data, &d) != nil {
				return false
			}
		}
		switch {
		case e.Type == TurnStarted && e.Entry == entry:
			id = d.ID
		case e.Type == TurnEnded && id != "":
			return d.ID == id
		case e.Type == SessionEnded && id != "":
			return true
		}
		return false
	}
}
