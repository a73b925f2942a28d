package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestLargeCreate: a request for a session with large members is refused. The problem names the
// member.
func TestLargeCreate(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	large := strings.Repeat("<", 64<<10)
	for field, member := range map[string]string{
		"skills":  fmt.Sprintf(`{"x":{"sources":[{"type":"local","source":%q}]}}`, large),
		"mcp":     fmt.Sprintf(`{"x":{"type":"local","command":"true","args":[%q]}}`, large),
		"variant": fmt.Sprintf("%q", large),
	} {
		p := s.post(t, "/v1/sessions/large", fmt.Sprintf(`{"agent":"mock","directory":%q,%q:%s}`, t.TempDir(), field, member)).problem(t, 400, "invalid_request")
		if p["field"] != field {
			t.Errorf("%s: the problem is about %v", field, p["field"])
		}
	}
}

// TestPagesOfLargeSessions: a list of large sessions ends, and its cursor continues it.
func TestPagesOfLargeSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	if err := s.OpenAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	const sessions = 100
	skills := strings.Repeat("<", 200<<10)
	var want []string
	err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
		for i := range sessions {
			id := fmt.Sprintf("s%03d", i)
			want = append(want, id)
			state := []eventlog.State{eventlog.Idle, eventlog.Ended}[i%2]
			if err := tx.PutSession(eventlog.Session{ID: id, Agent: "mock", Origin: "rest", State: state}); err != nil {
				return err
			}
			_, err := tx.Append(eventlog.Event{Stream: "rest:" + id, Session: id, Dir: eventlog.Client, Kind: "create", Payload: fmt.Appendf(nil, `{"agent":"mock","skills":%q}`, skills)})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "limit=90", "limit=3"} {
		var got []string
		pages := 0
		for next, more := "", true; more; more = next != "" {
			var page struct {
				Sessions []listed
				Next     string
			}
			body := s.do(t, call{path: "/v1/sessions?" + query + "&cursor=" + next}).want(t, 200).body
			if len(body) > 12<<20 {
				t.Errorf("%q: a page has %d bytes", query, len(body))
			}
			decode(t, body, &page)
			next = page.Next
			for _, one := range page.Sessions {
				got = append(got, one.ID)
			}
			pages++
		}
		if !slices.Equal(got, want) || query == "limit=3" && pages != 34 {
			t.Errorf("%q: %d sessions in %d pages, want %d: %v", query, len(got), pages, sessions, got)
		}
	}
}
