package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// TestPostgresGone: while the event log's database is away, clients are asked to
// try again soon, whatever they want of agents.
func TestPostgresGone(t *testing.T) {
	t.Parallel()
	c := testpostgres.Start(t)
	s := serve(t, Config{EventLog: eventlog.Config{DSN: c.DSN()}})
	s.send(t, "/v1/acp/here?agent=mock", acpEcho).want(t, 200)
	made := fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())
	s.post(t, "/v1/sessions/kept", made).want(t, 200)
	s.turn(t, "kept", "hello")
	c.Stop()
	for _, r := range []call{
		{method: http.MethodPost, path: "/v1/acp/here", body: acpEcho},
		{method: http.MethodPost, path: "/v1/acp/new?agent=mock", body: acpEcho},
		{path: "/v1/acp"},
		{path: "/v1/acp/other"},
		{method: http.MethodDelete, path: "/v1/acp/other"},
		{path: "/v1/sessions"},
		{method: http.MethodPost, path: "/v1/sessions/other", body: made},
		{path: "/v1/sessions/kept/events"},
		{method: http.MethodPost, path: "/v1/sessions/kept/messages", body: `{"message":"lost?"}`},
		{method: http.MethodPost, path: "/v1/sessions/kept/messages/stream", body: `{"message":"lost?"}`},
		{method: http.MethodPost, path: "/v1/sessions/kept/terminate"},
		{path: "/opencomputer/sandboxes/main/agent"},
		{path: "/opencomputer/sandboxes/main/agent/kept"},
	} {
		begun := time.Now()
		a := s.do(t, r)
		a.problem(t, 503, "stream_error")
		if got := a.Header.Get("Retry-After"); got != "1" {
			t.Errorf("%s %s: Retry-After = %q", r.method, r.path, got)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s %s took %v", r.method, r.path, took)
		}
	}
	c.Restart(t)
	s.send(t, "/v1/acp/there?agent=mock", acpEcho).want(t, 200)
	// Those that were used meanwhile look once a second whether it is back.
	s.insist(t, call{method: http.MethodPost, path: "/v1/acp/here", body: acpEcho})
	s.insist(t, call{method: http.MethodPost, path: "/v1/sessions/kept/messages", body: `{"message":"afterwards"}`})
	s.turn(t, "kept", "and last")
	if text := string(s.do(t, call{path: "/v1/sessions/kept/events"}).want(t, 200).body); strings.Contains(text, "lost?") || !strings.Contains(text, "afterwards") {
		t.Errorf("events: %s", text)
	}
}

// insist repeats a request as long as that is what the answer asks for.
func (s *testServer) insist(t *testing.T, r call) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for a := s.do(t, r); a.StatusCode >= 300; a = s.do(t, r) {
		a.problem(t, 503, "stream_error")
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is still refused", r.path)
		}
	}
}
