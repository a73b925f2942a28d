package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/universal"
)

// universalStream is where a session's events are.
func universalStream(session string) string { return "uni:" + session }

// storedEvent is an event as the log has it.
type storedEvent struct {
	Entry int64           `json:"entry"` // of the session's stream
	Event universal.Event `json:"event"`
}

// Bounds of a batch, which is read as a whole.
const (
	batchEvents = 64
	batchBytes  = 64 << 10 // but for the last event's
)

// batch is a row of the log, with the events that some entries became. Many in
// one take up a tenth of what they would in one each. The state after the newest
// one before it that has it, and what was taken since, is that after any.
type batch struct {
	Events  []storedEvent   `json:"events"`
	Applied int64           `json:"applied,omitempty"` // the last entry that was taken
	State   json.RawMessage `json:"state,omitempty"`   // after that
	Base    int64           `json:"base,omitempty"`    // the newest row with a state, if this is none; 0: there is none

	seq int64 // of the row
}

// parseBatch reads a row. The first ones had one event each, and nothing else.
func parseBatch(row *eventlog.Event) (*batch, error) {
	var b struct {
		batch
		storedEvent
	}
	if err := json.Unmarshal(row.Payload, &b); err != nil {
		return nil, fmt.Errorf("event %d of session %s: %w", row.Seq, row.Session, err)
	}
	if len(b.Events) == 0 {
		b.Events = []storedEvent{b.storedEvent}
		b.Applied = b.Entry
	}
	b.seq = row.Seq
	first := row.Seq - int64(len(b.Events))
	for i := range b.Events {
		e := &b.Events[i]
		e.Event.Sequence, e.Event.Entry = first+int64(i)+1, e.Entry
	}
	return &b.batch, nil
}

// row is what the log gets, with the number of the last event.
func (b *batch) row(session string, number int64) (eventlog.Event, error) {
	payload, err := json.Marshal(b)
	return eventlog.Event{
		Stream: universalStream(session), ID: "uni_" + session + "_" + fmt.Sprint(number), At: b.Events[len(b.Events)-1].Event.Time,
		Session: session, Dir: eventlog.Daemon, Kind: "events", Payload: payload,
	}, err
}

// batches cuts events.
func batches(events []storedEvent) (all []*batch) {
	for from := 0; from < len(events); {
		to, bytes := from, 0
		for to < len(events) && to-from < batchEvents && bytes < batchBytes {
			bytes += len(events[to].Event.Data)
			to++
		}
		all = append(all, &batch{Events: events[from:to]})
		from = to
	}
	return all
}

// readBatch reads the row that has an event; nil: it is not there.
func readBatch(ctx context.Context, log *eventlog.Log, session string, number int64) (*batch, error) {
	rows, err := log.Read(ctx, universalStream(session), number-1, 1)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return parseBatch(&rows[0])
}

// readEvents reads stored events.
func readEvents(ctx context.Context, log *eventlog.Log, session string, after int64, limit int) (out []storedEvent, err error) {
	// Nobody knows how many events are in a row: few at first, and more when these
	// were few.
	for rows := limit/batchEvents + 2; len(out) < limit; rows *= 4 {
		page, err := log.Read(ctx, universalStream(session), after, rows)
		if err != nil {
			return nil, err
		}
		for i := range page {
			b, err := parseBatch(&page[i])
			if err != nil {
				return nil, err
			}
			for _, e := range b.Events {
				if e.Event.Sequence > after {
					out = append(out, e)
				}
			}
			after = b.seq
		}
		if len(page) < min(rows, mostRows) {
			break // there are no more, or they are large
		}
	}
	return out[:min(len(out), limit)], nil
}

// mostRows is how many rows the log gives at once.
const mostRows = 1000

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

// mark is where the making of a session's events can go on.
type mark struct {
	state  *universal.State
	at     int64     // the last entry that the state has taken
	until  int64     // the last one whose events are stored
	stored int64     // the number of the newest event
	base   int64     // the row that has the state; 0: none
	made   time.Time // when its last event was
}

// findMark looks for the newest state of this version that is stored.
func findMark(ctx context.Context, log *eventlog.Log, session string) (*mark, error) {
	m := &mark{state: universal.NewState(session)}
	var err error
	if m.stored, err = log.Last(ctx, universalStream(session)); err != nil || m.stored == 0 {
		return m, err
	}
	newest, err := readBatch(ctx, log, session, m.stored)
	if err != nil || newest == nil {
		return m, err
	}
	m.until = newest.Applied
	b := newest
	if b.State == nil && b.Base > 0 {
		if b, err = readBatch(ctx, log, session, b.Base); err != nil {
			return m, err
		}
	}
	if b == nil || b.State == nil || b.Applied > m.until {
		return m, nil
	}
	if state := universal.Restore(b.State); state != nil && state.Session == session {
		m.state, m.at, m.base, m.made = state, b.Applied, b.seq, b.Events[len(b.Events)-1].Event.Time
	}
	return m, nil
}
