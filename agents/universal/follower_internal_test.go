package universal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// appendEntries appends entries to a session and returns the number of the last one.
func appendEntries(t *testing.T, log *eventlog.Log, session string, entries ...eventlog.Event) (last int64) {
	t.Helper()
	err := log.Commit(t.Context(), func(tx *eventlog.Tx) error {
		for _, e := range entries {
			e.Stream, e.Session, e.Process = agents.SessionStream(session), session, "life"
			e, err := tx.Append(e)
			if err != nil {
				return err
			}
			last = e.Seq
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func aPrompt(id int) eventlog.Event {
	return eventlog.Event{Dir: eventlog.Client, Kind: "session/prompt", Payload: fmt.Appendf(nil, `{"id":%d,"params":{"prompt":[{"type":"text","text":"do %d"}]}}`, id, id)}
}

func anAnswer(id int) eventlog.Event {
	return eventlog.Event{Kind: "response:session/prompt", Payload: fmt.Appendf(nil, `{"id":%d,"result":{"stopReason":"end_turn"}}`, id)}
}

// TestFollowTurn: a follower of a turn gets the events from the beginning to the end of that
// turn, also when another turn runs concurrently and continues.
func TestFollowTurn(t *testing.T) {
	t.Parallel()
	log := openLog(t, eventlog.Config{})
	appendEntries(t, log, "s", aPrompt(1), anAnswer(1), aPrompt(2))
	own := appendEntries(t, log, "s", aPrompt(3))
	f, err := NewProjector(log).Session("s").FollowTurn(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	var got []Event
	read := func(ctx context.Context) error {
		events, err := f.Next(ctx)
		got = append(got, events...)
		return err
	}
	if err := read(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := read(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v while nothing happens", err)
	}
	appendEntries(t, log, "s", anAnswer(2))
	appendEntries(t, log, "s", anAnswer(3), aPrompt(4), anAnswer(4))
	for err == nil {
		err = read(t.Context())
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	id := fmt.Sprint("turn_", own)
	first, last := got[0], got[len(got)-1]
	if first.Type != TurnStarted || last.Type != TurnEnded || turnID(t, first) != id || turnID(t, last) != id {
		t.Errorf("from %s %s to %s %s", first.Type, first.Data, last.Type, last.Data)
	}
	for i, e := range got {
		if e.Sequence != first.Sequence+int64(i) {
			t.Errorf("event %d has the number %d", i, e.Sequence)
		}
	}
}

func turnID(t *testing.T, e Event) string {
	t.Helper()
	var d struct {
		ID string `json:"turn_id"`
	}
	if err := json.Unmarshal(e.Data, &d); err != nil {
		t.Fatal(err)
	}
	return d.ID
}
