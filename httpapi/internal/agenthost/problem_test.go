package agenthost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// A session that cannot be restored is answered for what was in the way.
func TestRestoreProblems(t *testing.T) {
	t.Parallel()
	code := 3
	for name, c := range map[string]struct {
		err    error
		server string
		status int
		code   string
		retry  bool
		detail string
	}{
		"late":        {&agents.TimeoutError{Agent: "a", Method: "session/load", After: time.Second}, "s", 504, "timeout", false, "did not answer"},
		"deadline":    {context.DeadlineExceeded, "s", 504, "timeout", false, "could not be restored"},
		"refused":     {&agents.ResponseError{Method: "session/new", Code: -32000, Message: "log in first", Data: []byte(`{"a":1}`)}, "s", 502, "stream_error", false, "session s could not be restored: session/new: log in first"},
		"exited":      {&agents.ExitedError{Agent: "a", Code: &code}, "s", 500, "agent_process_exited", false, "exit code 3"},
		"deleted":     {agents.ErrServerNotFound, "s", 409, "conflict", false, "try again"},
		"no server":   {agents.ErrServerNotFound, "srv", 404, "session_not_found", false, "srv"},
		"no session":  {eventlog.ErrNotFound, "s", 404, "session_not_found", false, "s"},
		"ended":       {agents.ErrSessionEnded, "s", 409, "conflict", false, "has ended"},
		"being made":  {agents.ErrSessionStarting, "s", 409, "conflict", true, "is being made: s"},
		"too many":    {agents.ErrTooManyRequests, "s", 503, "stream_error", true, "too many requests"},
		"full":        {fmt.Errorf("commit: %w", eventlog.ErrFull), "s", 507, "stream_error", false, "space"},
		"locked":      {eventlog.ErrBusy, "s", 503, "stream_error", true, ""},
		"unavailable": {eventlog.ErrUnavailable, "s", 503, "stream_error", true, ""},
		"shutting":    {agents.ErrClosed, "s", 503, "stream_error", false, "shutting down"},
		"anything":    {errors.New("odd"), "s", 502, "stream_error", false, "session s could not be restored: odd"},
	} {
		p := Names{Session: c.server, Agent: "a"}.Problem(&agents.RestoreError{Session: "s", Err: c.err})
		if p == nil || p.Status != c.status || p.Code != c.code || (p.Header.Get("Retry-After") != "") != c.retry || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: %+v", name, p)
		}
		if text, err := plainjson.Marshal(p); err != nil || name == "refused" && !strings.Contains(string(text), `"code":-32000,"data":{"a":1},"message":"log in first"`) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// A session that cannot be restored because its log is away is no agent that is
// slow.
func TestRestoreWithoutPostgres(t *testing.T) {
	t.Parallel()
	p := Names{Session: "a", Agent: "mock"}.Problem(&agents.RestoreError{Session: "s", Err: eventlog.ErrUnavailable})
	if p.Status != 503 || p.GetHeaders().Get("Retry-After") != "1" {
		t.Errorf("problem = %+v", p)
	}
}
