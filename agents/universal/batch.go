package universal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// storedStream is the name of the stream that has a session's events.
func storedStream(session string) string { return "uni:" + session }

// storedEvent is an event as the log has it.
type storedEvent struct {
	Entry int64 `json:"entry"` // of the session's stream
	Event Event `json:"event"`
}

// Bounds of a batch.
const (
	batchEvents = 64
	batchBytes  = 64 << 10 // without the last event
)

// eventBatch is one row of the log, with several events. A row for each event would
// take ten times the space. Only some rows have a state. The state of another row is
// made from the newest state before it and the later entries.
type eventBatch struct {
	Events  []storedEvent   `json:"events"`
	Applied int64           `json:"applied,omitempty"` // the last entry that was applied
	State   json.RawMessage `json:"state,omitempty"`   // after that entry
	Base    int64           `json:"base,omitempty"`    // the newest row with a state, if this one has none; 0: there is none

	seq int64 // of the row
}

// parseBatch decodes a row. A row of the first version is one storedEvent.
func parseBatch(row *eventlog.Event) (*eventBatch, error) {
	var b struct {
		eventBatch
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
	return &b.eventBatch, nil
}

// row returns the row for the log. number is the number of the batch's last event.
func (b *eventBatch) row(session string, number int64) (eventlog.Event, error) {
	payload, err := json.Marshal(b)
	return eventlog.Event{
		Stream: storedStream(session), ID: "uni_" + session + "_" + fmt.Sprint(number), At: b.Events[len(b.Events)-1].Event.Time,
		Session: session, Dir: eventlog.Daemon, Kind: "events", Payload: payload,
	}, err
}

// batches splits events.
func batches(events []Event) (all []*eventBatch) {
	for len(events) > 0 {
		b, bytes := &eventBatch{}, 0
		for len(events) > 0 && len(b.Events) < batchEvents && bytes < batchBytes {
			b.Events = append(b.Events, storedEvent{events[0].Entry, events[0]})
			bytes += len(events[0].Data)
			events = events[1:]
		}
		all = append(all, b)
	}
	return all
}

// readBatch returns the batch with the event of that number, or nil if there is
// none.
func readBatch(ctx context.Context, log *eventlog.Log, session string, number int64) (*eventBatch, error) {
	rows, err := log.Read(ctx, storedStream(session), number-1, 1)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return parseBatch(&rows[0])
}

// Bounds of what is read at a time.
const (
	maxRows   = 1000    // that the log returns
	readBytes = 4 << 20 // of events, without the last rows that the log returns
)

// readEvents returns stored events, and fewer than limit if they are large.
func readEvents(ctx context.Context, log *eventlog.Log, session string, after int64, limit int) (out []Event, err error) {
	// The number of events in a row is not known: read few rows, then more.
	bytes := 0
	for rows := limit/batchEvents + 2; len(out) < limit && bytes < readBytes; rows *= 4 {
		page, err := log.Read(ctx, storedStream(session), after, rows)
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
					out = append(out, e.Event)
					bytes += len(e.Event.Data)
				}
			}
			after = b.seq
		}
		if len(page) < min(rows, maxRows) {
			break // the stream ends, or its rows are large
		}
	}
	return out[:min(len(out), limit)], nil
}

// checkpoint is a point in a session from which the projection can continue.
type checkpoint struct {
	state   *State    // nil: not known
	applied int64     // the last entry that the state has
	until   int64     // the last entry whose events are stored
	stored  int64     // the number of the newest stored event
	base    int64     // the newest row with a state; 0: there is none
	savedAt time.Time // the time of that row's last event
}

// findCheckpoint finds the newest stored state of this version.
func findCheckpoint(ctx context.Context, log *eventlog.Log, session string) (c checkpoint, err error) {
	c.state = NewState(session)
	if c.stored, err = log.Last(ctx, storedStream(session)); err != nil || c.stored == 0 {
		return c, err
	}
	newest, err := readBatch(ctx, log, session, c.stored)
	if err != nil || newest == nil {
		return c, err
	}
	c.until = newest.Applied
	b := newest
	if b.State == nil && b.Base > 0 {
		if b, err = readBatch(ctx, log, session, b.Base); err != nil {
			return c, err
		}
	}
	if b == nil || b.State == nil || b.Applied > c.until {
		return c, nil
	}
	if state := Restore(b.State); state != nil && state.Session == session {
		c.state, c.applied, c.base, c.savedAt = state, b.Applied, b.seq, b.Events[len(b.Events)-1].Event.Time
	}
	return c, nil
}
