package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/universal"
)

// projections keep, beside each session's log, what the older REST API tells of
// it. It is stored under its own numbers, so that offsets that clients have stay
// good when what is made of a log changes with a later version.
type projections struct {
	mu     sync.Mutex // guards what follows
	all    map[string]*projection
	states []*projection // that may have one, the one that was asked for first first
}

// mostStates is how many sessions' states are kept in memory. Those of others
// are made again of their logs.
const mostStates = 256

// projection is one session's.
type projection struct {
	id      string
	counted bool // among projections.states, whose mutex guards it

	mu      sync.Mutex       // guards what follows; held while the log is read and written
	state   *universal.State // nil: not known
	applied int64            // the last entry that it has taken
	stored  int64            // the last event that is in the log
	base    int64            // the last of them with which the state was stored; 0: none
	made    time.Time        // when that was
	size    int              // of the state then
	since   int              // bytes of entries that it has taken since
}

func (ps *projections) of(session string) *projection {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.all == nil {
		ps.all = map[string]*projection{}
	}
	p := ps.all[session]
	if p == nil {
		p = &projection{id: session}
		ps.all[session] = p
	}
	if !p.counted {
		p.counted = true
		ps.states = append(ps.states, p)
	}
	for len(ps.states) > mostStates {
		ps.states[0].drop()
		ps.states = ps.states[1:]
	}
	return p
}

// drop forgets the state, unless somebody needs it right now: then it is one too
// many until the session is asked for again.
func (p *projection) drop() {
	p.counted = false
	if p.mu.TryLock() {
		p.state = nil
		p.mu.Unlock()
	}
}

// errMoved says that somebody else, another server with the same log, has stored
// events.
var errMoved = errors.New("somebody else has stored events of the session")

// catchUp makes the events of what the session's log holds by now.
func (p *projection) catchUp(ctx context.Context, log *eventlog.Log) error {
	return p.catchUpTo(ctx, log, math.MaxInt64)
}

// catchUpTo is catchUp as far as that many events: who reads the beginning of a
// long history need not wait for all of it.
func (p *projection) catchUpTo(ctx context.Context, log *eventlog.Log, events int64) error {
	for {
		// Others who read what is there already have their turn between two steps.
		switch err := p.advance(ctx, log, events); {
		case errors.Is(err, errUpToDate):
			return nil
		case err != nil && !errors.Is(err, errMoved):
			return fmt.Errorf("events of session %s: %w", p.id, err)
		}
	}
}

// errUpToDate says that there is nothing to do.
var errUpToDate = errors.New("there is nothing new")

// advance is one step, if there are not as many events as that.
func (p *projection) advance(ctx context.Context, log *eventlog.Log, events int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	stored := p.stored
	if p.state == nil { // what is stored needs none
		var err error
		if stored, err = log.Last(ctx, universalStream(p.id)); err != nil {
			return err
		}
	}
	if stored >= events {
		return errUpToDate
	}
	err := p.step(ctx, log)
	if err != nil && !errors.Is(err, errUpToDate) {
		p.state = nil // it may be ahead of what is stored
	}
	return err
}

// catchUpSoon is catchUp if that is a matter of a few entries: nobody who asks
// for a list waits until all histories were read.
func (p *projection) catchUpSoon(ctx context.Context, log *eventlog.Log) error {
	last, err := log.Last(ctx, agents.SessionStream(p.id))
	if err != nil {
		return err
	}
	p.mu.Lock()
	known, applied := p.state != nil, p.applied
	p.mu.Unlock()
	if applied == last { // also without the state
		return nil
	}
	if !known {
		m, err := findMark(ctx, log, p.id)
		if err != nil {
			return err
		}
		applied = m.at
	}
	if last-applied > saveEvery+entriesAtOnce {
		return nil
	}
	if err := p.catchUp(ctx, log); !logTakesNothing(err) {
		return err
	}
	return nil
}

// logTakesNothing says that events could not be stored; those that are can be
// read.
func logTakesNothing(err error) bool {
	return errors.Is(err, eventlog.ErrFull) || errors.Is(err, eventlog.ErrBusy)
}

// entriesAtOnce is how much of a log is taken in one go.
const entriesAtOnce = 512

// step takes some entries.
func (p *projection) step(ctx context.Context, log *eventlog.Log) error {
	if p.state == nil {
		if err := p.restore(ctx, log); err != nil {
			return err
		}
	}
	entries, err := log.Read(ctx, agents.SessionStream(p.id), p.applied, entriesAtOnce)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return errUpToDate
	}
	var events []storedEvent
	for i := range entries {
		p.since += len(entries[i].Payload)
		for _, e := range p.state.Apply(toUniversal(&entries[i])) {
			events = append(events, storedEvent{e.Entry, e})
		}
	}
	p.applied = entries[len(entries)-1].Seq
	if len(events) == 0 {
		return nil
	}
	return p.store(ctx, log, events)
}

// store appends events to those that are stored, and now and then the state.
func (p *projection) store(ctx context.Context, log *eventlog.Log, events []storedEvent) error {
	all := batches(events)
	last := all[len(all)-1]
	last.Applied = p.applied
	stored := p.stored + int64(len(events))
	base, made, since, size := p.base, p.made, p.since, p.size
	if now := events[len(events)-1].Event.Time; p.due(stored, now) {
		var err error
		if last.State, err = p.state.Snapshot(); err != nil {
			return err
		}
		base, made, since, size = stored, now, 0, len(last.State)
	}
	rows, err := p.rows(all)
	if err != nil {
		return err
	}
	err = log.Commit(ctx, func(tx *eventlog.Tx) error {
		if last, err := tx.Last(universalStream(p.id)); err != nil || last != p.stored {
			return cmp.Or(err, errMoved)
		}
		for i, row := range rows {
			if _, err := tx.AppendMany(row, len(all[i].Events)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		p.stored, p.base, p.made, p.since, p.size = stored, base, made, since, size
	}
	return err
}

// rows is what the log gets of batches, behind what is stored.
func (p *projection) rows(all []*batch) ([]eventlog.Event, error) {
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

// saveEvery is after how many events, at least, the state is stored while
// something is going on in a session: as many as a few milliseconds are enough
// for to apply them again, and as retention may take without taking all states.
const saveEvery = 256

// due says whether to store the state with the event of that number and time:
// between turns, when it is small, and otherwise so seldom that all states
// together are smaller than the entries. After a pause retention may have taken
// the one before.
func (p *projection) due(number int64, at time.Time) bool {
	return p.base == 0 || p.state.Idle() || at.Sub(p.made) > time.Hour ||
		number-p.base >= saveEvery && p.since >= p.size
}

// restore finds the state again that led to what is stored, if something has
// come since.
func (p *projection) restore(ctx context.Context, log *eventlog.Log) error {
	m, err := findMark(ctx, log, p.id)
	if err != nil {
		return err
	}
	last, err := log.Last(ctx, agents.SessionStream(p.id))
	if err != nil {
		return err
	}
	if p.applied = m.until; last <= m.until {
		return errUpToDate
	}
	p.since = 0
	for at := m.at; at < m.until; {
		entries, err := log.Read(ctx, agents.SessionStream(p.id), at, entriesAtOnce)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break // retention has taken them
		}
		if entries[0].Seq > at+1 { // or some
			m.state.Items = max(m.state.Items, int(m.stored)) // no id is used again
		}
		for i := range entries {
			if at = entries[i].Seq; at > m.until {
				break
			}
			p.since += len(entries[i].Payload)
			m.state.Apply(toUniversal(&entries[i]))
		}
	}
	m.state.Sequence = m.stored // the numbers go on, whatever other version made those before
	p.state, p.applied, p.stored, p.base, p.made, p.size = m.state, m.until, m.stored, m.base, m.made, 0
	return nil
}

func toUniversal(e *eventlog.Event) universal.Entry {
	return universal.Entry{Seq: e.Seq, At: e.At, Life: e.Life, Dir: universal.Direction(e.Dir), Kind: e.Kind, Payload: e.Payload}
}
