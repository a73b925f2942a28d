package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

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
}

// universalStream is where a session's events are.
func universalStream(session string) string { return "uni:" + session }

// storedEvent is an event as the log has it.
type storedEvent struct {
	Entry int64           `json:"entry"` // of the session's stream
	Event universal.Event `json:"event"`
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == nil {
		// What is stored needs no state, which takes long to make of a long history.
		stored, err := log.Last(ctx, universalStream(p.id))
		if err != nil || stored >= events {
			return err
		}
	}
	for p.state == nil || p.stored < events {
		err := p.step(ctx, log)
		switch {
		case errors.Is(err, errUpToDate):
			return nil
		case err != nil:
			p.state = nil // it may be ahead of what is stored
			if !errors.Is(err, errMoved) {
				return fmt.Errorf("events of session %s: %w", p.id, err)
			}
		}
	}
	return nil
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
	switch {
	case applied == last: // also without the state
		return nil
	case !known:
		applied = 0 // to make it costs as much as all entries
	}
	if last-applied > entriesAtOnce {
		return nil
	}
	if err := p.catchUp(ctx, log); !logTakesNothing(err) {
		return err
	}
	return nil
}

// newestStored is the number of the newest event that is stored, and of the
// entry that it was made of; zeros if there is none.
func newestStored(ctx context.Context, log *eventlog.Log, session string) (stored, entry int64, err error) {
	stored, err = log.Last(ctx, universalStream(session))
	if err != nil || stored == 0 {
		return 0, 0, err
	}
	last, err := readEvents(ctx, log, session, stored-1, 1)
	if err != nil || len(last) == 0 {
		return stored, 0, err
	}
	return stored, last[0].Entry, nil
}

// logTakesNothing says that events could not be stored; those that are can be
// read.
func logTakesNothing(err error) bool {
	return errors.Is(err, eventlog.ErrFull) || errors.Is(err, eventlog.ErrBusy)
}

var errUpToDate = errors.New("there is nothing new")

// entriesAtOnce is how much of a log is taken in one go.
const entriesAtOnce = 512

// step takes some entries.
func (p *projection) step(ctx context.Context, log *eventlog.Log) error {
	if p.state == nil {
		if err := p.rebuild(ctx, log); err != nil {
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
	var rows []eventlog.Event
	for i := range entries {
		for _, e := range p.state.Apply(toUniversal(&entries[i])) {
			payload, err := json.Marshal(storedEvent{e.Entry, e})
			if err != nil {
				return err
			}
			rows = append(rows, eventlog.Event{
				Stream: universalStream(p.id), ID: "uni_" + p.id + "_" + fmt.Sprint(e.Sequence), At: e.Time, Session: p.id,
				Dir: eventlog.Daemon, Kind: e.Type, Payload: payload,
			})
		}
	}
	if len(rows) > 0 {
		err = log.Commit(ctx, func(tx *eventlog.Tx) error {
			last, err := tx.Last(universalStream(p.id))
			if err != nil {
				return err
			}
			if last != p.stored {
				return errMoved
			}
			for _, row := range rows {
				if _, err := tx.Append(row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	p.applied = entries[len(entries)-1].Seq
	p.stored += int64(len(rows))
	return nil
}

// rebuild takes the entries again whose events are stored.
func (p *projection) rebuild(ctx context.Context, log *eventlog.Log) error {
	stored, until, err := newestStored(ctx, log, p.id)
	if err != nil {
		return err
	}
	state := universal.NewState(p.id)
	applied := int64(0)
	for applied < until {
		entries, err := log.Read(ctx, agents.SessionStream(p.id), applied, entriesAtOnce)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break // retention has taken them
		}
		for i := range entries {
			if applied = entries[i].Seq; applied > until {
				break
			}
			state.Apply(toUniversal(&entries[i]))
		}
	}
	state.Sequence = stored // the numbers go on, whatever other version made those before
	p.state, p.applied, p.stored = state, until, stored
	return nil
}

func toUniversal(e *eventlog.Event) universal.Entry {
	return universal.Entry{Seq: e.Seq, At: e.At, Life: e.Life, Dir: universal.Direction(e.Dir), Kind: e.Kind, Payload: e.Payload}
}

// readEvents reads stored events.
func readEvents(ctx context.Context, log *eventlog.Log, session string, after int64, limit int) ([]storedEvent, error) {
	rows, err := log.Read(ctx, universalStream(session), after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]storedEvent, len(rows))
	for i := range rows {
		if err := json.Unmarshal(rows[i].Payload, &out[i]); err != nil {
			return nil, fmt.Errorf("event %d of session %s: %w", rows[i].Seq, session, err)
		}
		out[i].Event.Sequence, out[i].Event.Entry = rows[i].Seq, out[i].Entry
	}
	return out, nil
}

// tell is an event as clients get it.
func (e storedEvent) tell(ctx context.Context, log *eventlog.Log, raw bool) (json.RawMessage, error) {
	var payload []byte
	if raw && !e.Event.Synthetic {
		entries, err := log.Read(ctx, agents.SessionStream(e.Event.Session), e.Entry-1, 1)
		if err != nil {
			return nil, err
		}
		if len(entries) == 1 && entries[0].Seq == e.Entry {
			payload = entries[0].Payload
		}
	}
	return e.Event.JSON(payload)
}
