package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
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
		p := hostProblem(&agents.RestoreError{Session: "s", Err: c.err}, c.server, "a")
		if p == nil || p.Status != c.status || p.Code != c.code || (p.Header.Get("Retry-After") != "") != c.retry || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: %+v", name, p)
		}
		if text, err := rest.MarshalJSON(p); err != nil || name == "refused" && !strings.Contains(string(text), `"code":-32000,"data":{"a":1},"message":"log in first"`) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// forgetful makes one session in its life, when its folder is empty, and opens
// none again.
const forgetful = `#!/bin/sh
while read -r line; do
id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
case "$line" in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}' ;;
*'"session/new"'*) if mkdir DIR/made; then echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"x"}}'
	else echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32000,"message":"log in first"}}'; fi ;;
*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32602,"message":"what session"}}' ;;
esac
done
`

// TestRestoreRefused has an agent refuse to go on, which is no time-out.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "agent")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(forgetful, "DIR", dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := Config{StateDir: t.TempDir()}
	cfg.AgentHost.Launch = func(context.Context, string) (agents.Launch, error) { return agents.Launch{Path: file}, nil }
	first, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	host, err := first.agents.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.CreateSession(t.Context(), "s", agents.SessionOptions{Agent: "mock", Cwd: dir, Origin: restOrigin}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	s := serve(t, cfg)
	p := s.post(t, "/v1/sessions/s/messages", `{"message":"hello"}`).problem(t, http.StatusBadGateway, "stream_error")
	details, _ := p["details"].(map[string]any)
	if !strings.Contains(p["detail"].(string), "could not be restored") || details["message"] != "log in first" || details["code"] != -32000.0 {
		t.Errorf("%v", p)
	}
}
