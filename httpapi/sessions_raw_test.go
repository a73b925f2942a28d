package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestRawEventsAreBounded: a page of events ends at 4 MiB with the agent's messages, which have
// no escapes for HTML. Larger messages than 1 MiB are left out, also of a stream.
func TestRawEventsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{EventLog: eventlog.Config{Memory: 1}})
	s.post(t, "/v1/sessions/raw", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	const messages = 8
	err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
		for i := range messages + 1 {
			text := strings.Repeat("<", 1000<<10)
			if i == messages {
				text += text
			}
			_, err := tx.Append(eventlog.Event{
				Stream: agents.SessionStream("raw"), Session: "raw", Dir: eventlog.Agent, Kind: "other",
				Payload: fmt.Appendf(nil, `{"method":"other","params":{"text":%q}}`, text),
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
	type event struct {
		Sequence int64
		Type     string
		Raw      json.RawMessage
	}
	var all []event
	for more := true; more; {
		var page struct {
			Events  []event
			HasMore bool
		}
		body := s.do(t, call{path: fmt.Sprintf("/v1/sessions/raw/events?include_raw=true&offset=%d", len(all))}).want(t, 200).body
		if len(body) > 6<<20 {
			t.Errorf("the page after %d events has %d bytes", len(all), len(body))
		}
		decode(t, body, &page)
		if more = page.HasMore && len(page.Events) > 0; page.HasMore != more {
			t.Fatal("a page with more has no events")
		}
		all = append(all, page.Events...)
	}
	large, dropped := 0, all[len(all)-1]
	for i, e := range all {
		if e.Sequence != int64(i+1) {
			t.Fatalf("event %d has the sequence %d", i+1, e.Sequence)
		}
		if bytes.Count(e.Raw, []byte("<")) == 1000<<10 {
			large++
		}
	}
	if large != messages || dropped.Type != "agent.unparsed" || string(dropped.Raw) != "null" {
		t.Errorf("%d messages of %d; the last event %s has %d bytes of its message", large, messages, dropped.Type, len(dropped.Raw))
	}
	// A line above 1 MiB would end the stream here.
	path := fmt.Sprintf("/v1/sessions/raw/events/sse?include_raw=true&offset=%d", len(all)-1)
	if got := s.sse(t, call{path: path}, isType("agent.unparsed")); len(got) != 1 {
		t.Errorf("the stream has %d events", len(got))
	}
}
