package agents_test

import (
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// A session that was being made when the server was killed has failed, and can be made again.
func TestKilledWhileMade(t *testing.T) {
	t.Parallel()
	log := openLog(t, "")
	err := log.Commit(t.Context(), func(tx *eventlog.Tx) error {
		return tx.PutSession(eventlog.Session{
			ID: "mine", Agent: "scripted", Server: "ses-mine", Origin: "go", State: eventlog.Starting, CreatedAt: time.Now(),
			Data: []byte(`{"maker":"a program that is gone"}`),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	h := host(t, agents.Config{Log: log})
	s, err := h.Session(t.Context(), "mine")
	if err != nil || s.State != eventlog.Failed || s.EndReason == "" {
		t.Errorf("session = %+v, %v", s.Session, err)
	}
	create(t, h, "mine", agents.SessionOptions{})
	finish(t, say(t, h, "mine", "hello"))
	events, err := log.Read(t.Context(), agents.SessionStream("mine"), 0, 10)
	if err != nil || len(events) < 3 || events[0].Kind != "session/ended" || events[1].Kind != "session/new" {
		t.Errorf("stream: %s, %v", payloads(events), err)
	}
}
