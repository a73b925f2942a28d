package httpapi

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
)

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
	host, err := first.agents.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.CreateSession(t.Context(), "s", agents.SessionOptions{Agent: "mock", Cwd: dir, Origin: "rest"}); err != nil {
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
