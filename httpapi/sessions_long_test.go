package httpapi

import (
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestEventsOfALongSession are made before a client reads them, and the embedder's
// OnAppend is called as well.
func TestEventsOfALongSession(t *testing.T) {
	t.Parallel()
	told := make(chan int64, 100)
	s := serve(t, Config{EventLog: eventlog.Config{OnAppend: func(stream string, before, last int64) {
		if stream == agents.SessionStream("long") {
			told <- last - before
		}
	}}})
	if err := s.OpenAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	const n = 2048
	err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
		for range n {
			_, err := tx.Append(eventlog.Event{
				Stream: agents.SessionStream("long"), Session: "long", Kind: "session/update",
				Payload: []byte(`{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-told; got != n {
		t.Errorf("the embedder was told of %d", got)
	}
	eventually(t, "the events of the long session", func() bool {
		made, err := s.agents.Events("long").Count(t.Context())
		return err == nil && made == n+1 // and the item's beginning
	})
}
