package httpapi

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
)

// An error in the log tells of which request it is, without an access log, too.
func TestErrorNamesRequest(t *testing.T) {
	t.Parallel()
	var log logLines
	cfg := Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	cfg.AgentHost = agents.Config{Launch: acpLaunch}
	s := serve(t, cfg)
	id := map[string]string{"X-Request-Id": "my-id.2"}
	s.do(t, call{path: "/v1/acp/a?agent=mock&token=x", body: `{"id":1,"method":"exit"}`, header: id}).problem(t, 500, "agent_process_exited")
	if text := log.String(); !strings.Contains(text, "request=my-id.2 method=POST path=/v1/acp/a operation=") || strings.Contains(text, "nil") {
		t.Errorf("log = %s", text)
	}
}
