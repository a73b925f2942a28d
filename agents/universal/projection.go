package universal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// Projection makes, stores and reads the events of one session. [Projector.Session] returns
// one. Its methods return the errors of package eventlog. While Postgres cannot be reached,
// reads fail without waiting.
type Projection struct {
	id        string
	log       *eventlog.Log
	projector *Projector
	bytes     int // of the state when it was used last; the projector's mutex guards it

	mu sync.Mutex // guards the fields below; held while the log is read and written
	checkpoint
	size  int // bytes of the state in the row base
	since int // bytes of the entries applied since
}

// dropState frees the state. It returns false if another goroutine uses it.
func (p *Projection) dropState() bool {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	p.state = nil
	return true
}

var (
	// errUpToDate says that all entries are applied.
	errUpToDate = errors.New("there are no new entries")

	// errOvertaken says that another server with the same log has stored events.
	errOvertaken = errors.New("another server has stored events of the session")
)

// CatchUp makes and stores the events of all entries of the session. It returns when no new
// entries are left, which can take long for a long history.
func (p *Projection) CatchUp(ctx context.Context) error { return p.catchUpTo(ctx, math.MaxInt64) }

// catchUpTo is like CatchUp but stops when that many events are stored, so that a
// reader of the beginning does not wait for the end.
func (p *Projection) catchUpTo(ctx context.Context, events int64) error {
	for {
		// Other readers get the mutex between two steps.
		switch err := p.advance(ctx, events); {
		case errors.Is(err, errUpToDate):
			return nil
		case err != nil && !errors.Is(err, errOvertaken):
			return fmt.Errorf("events of session %s: %w", p.id, err)
		}
	}
}

// advance applies one page of entries unless that many events are stored.
func (p *Projection) advance(ctx context.Context, events int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.projector.keep(p)
	stored := p.stored
	if p.state == nil { // reading stored events needs no state
		var err error
		if stored, err = p.log.Last(ctx, storedStream(p.id)); err != nil {
			return err
		}
	}
	if stored >= events {
		return errUpToDate
	}
	err := p.applyPage(ctx)
	if err != nil && !errors.Is(err, errUpToDate) {
		p.state, p.applied = nil, 0 // they may have entries whose events are not stored
	}
	return err
}

// Refresh is like CatchUp but does nothing if there are many new entries, so that a list of
// sessions does not wait for whole histories. It returns nil if the log cannot store events
// ([eventlog.ErrFull], [eventlog.ErrBusy]), because the stored ones can be read.
func (p *Projection) Refresh(ctx context.Context) error {
	last, err := p.log.Last(ctx, agents.SessionStream(p.id))
	if err != nil {
		return err
	}
	p.mu.Lock()
	known, applied := p.state != nil, p.applied
	p.mu.Unlock()
	if applied == last { // also without a state
		return nil
	}
	if !known {
		c, err := findCheckpoint(ctx, p.log, p.id)
		if err != nil {
			return err
		}
		applied = c.applied
	}
	if last-applied > saveEvery+entryPage {
		return nil
	}
	for range refreshPages { // pages of large entries have fewer
		switch err := p.advance(ctx, math.MaxInt64); {
		case errors.Is(err, errUpToDate), cannotStore(err):
			return nil
		case err != nil && !errors.Is(err, errOvertaken):
			return fmt.Errorf("events of session %s: %w", p.id, err)
		}
	}
	return nil
}

// refreshPages is how many pages of entries Refresh applies at most.
const refreshPages = 4

// cannotStore reports whether an error says that the log takes no events at the
// moment. Stored events can be read nevertheless.
func cannotStore(err error) bool {
	return errors.Is(err, eventlog.ErrFull) || errors.Is(err, eventlog.ErrBusy)
}

// Count returns the number of the newest stored event. It does not make events, so newer
// ones may follow, and it counts events that retention has dropped.
func (p *Projection) Count(ctx context.Context) (int64, error) {
	return p.log.Last(ctx, storedStream(p.id))
}

// Events returns at most limit events after a number, or fewer if they are large, and whether
// there are more. It first makes and stores those that are not stored yet, and waits for that,
// but not for new entries.
//
// While the log cannot store events ([eventlog.ErrFull], [eventlog.ErrBusy]), Events returns
// the stored ones, and more is true. If there are none after that number, it returns the
// error.
func (p *Projection) Events(ctx context.Context, after int64, limit int) (events []Event, more bool, err error) {
	behind := p.catchUpTo(ctx, after+int64(limit)+1)
	if behind != nil && !cannotStore(behind) {
		return nil, false, behind
	}
	events, err = readEvents(ctx, p.log, p.id, after, limit+1)
	n := len(events)
	switch {
	case n == 0: // there may be some that cannot be stored
		return nil, false, errors.Join(err, behind)
	case n > limit:
		return events[:limit], true, nil
	}
	last, err := p.Count(ctx) // a page of large events has fewer
	return events, behind != nil || last > events[n-1].Sequence, err
}

// maxRaw bounds the raw form of an event.
const maxRaw = 1 << 20

// JSON returns an event as clients get it. If raw is set, it has the agent's own message of at
// most 1 MiB.
func (p *Projection) JSON(ctx context.Context, e Event, raw bool) (json.RawMessage, error) {
	var payload []byte
	if raw && !e.Synthetic {
		var err error
		if payload, err = p.log.Payload(ctx, agents.SessionStream(e.Session), e.Entry, maxRaw); err != nil {
			return nil, err
		}
	}
	return e.JSON(payload)
}

// Bounds of the entries that are applied at a time.
const (
	entryPage = 512
	pageBytes = 8 << 20 // of their events, without the last entry's
)

// applyPage applies the next entries and stores their events. The caller holds
// p.mu.
func (p *Projection) applyPage(ctx context.Context) error {
	if p.state == nil {
		if err := p.restore(ctx); err != nil {
			return err
		}
	}
	entries, err := p.log.Read(ctx, agents.SessionStream(p.id), p.applied, entryPage)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return errUpToDate
	}
	var events []Event
	bytes := 0
	for i := range entries {
		p.since += len(entries[i].Payload)
		for _, e := range p.state.Apply(entries[i]) {
			events = append(events, e)
			bytes += len(e.Data)
		}
		if p.applied = entries[i].Seq; bytes > pageBytes {
			break
		}
	}
	if len(events) == 0 {
		return nil
	}
	return p.store(ctx, events)
}

// store appends events to the stored ones, with the state if that is due.
func (p *Projection) store(ctx context.Context, events []Event) error {
	all := batches(events)
	last := all[len(all)-1]
	last.Applied = p.applied
	stored := p.stored + int64(len(events))
	base, savedAt, since, size := p.base, p.savedAt, p.since, p.size
	if now := events[len(events)-1].Time; p.saveDue(stored, now) {
		var err error
		if last.State, err = p.state.Snapshot(); err != nil {
			return err
		}
		base, savedAt, since, size = stored, now, 0, len(last.State)
	}
	rows, err := p.rows(all)
	if err != nil {
		return err
	}
	err = p.log.Commit(ctx, func(tx *eventlog.Tx) error {
		if last, err := tx.Last(storedStream(p.id)); err != nil || last != p.stored {
			return cmp.Or(err, errOvertaken)
		}
		for i, row := range rows {
			if _, err := tx.AppendMany(row, len(all[i].Events)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		p.stored, p.base, p.savedAt, p.since, p.size = stored, base, savedAt, since, size
	}
	return err
}

// rows returns the rows that the log gets for batches.
func (p *Projection) rows(all []*eventBatch) ([]eventlog.Event, error) {
	rows := make([]eventlog.Event, len(all))
	number := p.stored
	for i, b := range all {
		if b.State == nil {
			b.Base = p.base
		}
		number += int64(len(b.Events))
		var err error
		if rows[i], err = b.row(p.id, number); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// saveEvery is how many events, at least, lie between two stored states while a
// turn runs. To apply that many again takes a few milliseconds, and retention that
// removes them leaves a newer state.
const saveEvery = 256

// saveDue reports whether to store the state with the event of that number and time.
// Between turns the state is small. Within a turn it is stored so seldom that all
// states together are smaller than the entries. After a pause retention may have
// removed the one before.
func (p *Projection) saveDue(number int64, at time.Time) bool {
	return p.base == 0 || p.state.Idle() || at.Sub(p.savedAt) > time.Hour ||
		number-p.base >= saveEvery && p.since >= p.size
}

// restore sets the checkpoint to the state that made the stored events. It returns
// errUpToDate if there are no newer entries.
func (p *Projection) restore(ctx context.Context) error {
	c, err := findCheckpoint(ctx, p.log, p.id)
	if err != nil {
		return err
	}
	last, err := p.log.Last(ctx, agents.SessionStream(p.id))
	if err != nil {
		return err
	}
	if last <= c.until {
		p.applied = c.until
		return errUpToDate
	}
	p.size, p.since = 0, 0
	for c.applied < c.until {
		entries, err := p.log.Read(ctx, agents.SessionStream(p.id), c.applied, entryPage)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break // retention has removed them
		}
		if entries[0].Seq > c.applied+1 { // or some
			c.state.Items = max(c.state.Items, int(c.stored)) // no id is used again
		}
		for i := range entries {
			if c.applied = entries[i].Seq; c.applied > c.until {
				break
			}
			p.since += len(entries[i].Payload)
			c.state.Apply(entries[i])
		}
	}
	c.applied = c.until
	c.state.Sequence = c.stored // also if another version made another number of events
	p.checkpoint = c
	return nil
}
