package httpapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/registry"
)

// An agent that ends before it has answered initialize is told of with its name,
// its exit code and what it wrote.
func TestSessionAgentEndsAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nread -r line\necho boom at init >&2\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := serve(t, agentsConfig(t, registry.Custom{ID: "brief", Command: []string{file}}))
	made := s.post(t, "/v1/sessions/a", `{"agent":"brief"}`).want(t, 200).json(t)
	failure, _ := made["error"].(map[string]any)
	const text = "agent process exited: brief (exit code 9): boom at init"
	if made["healthy"] != false || failure["type"] != "agent_process_exited" || failure["agent"] != "brief" || failure["message"] != text {
		t.Errorf("answer = %v", made)
	}
	details, _ := failure["details"].(map[string]any)
	if details["exitCode"] != 9.0 || !strings.Contains(details["stderr"].(string), "boom at init") {
		t.Errorf("details = %v", details)
	}
	var list struct{ Sessions []sessionInfo }
	decode(t, s.get(t, "/v1/sessions").want(t, 200).body, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].State != "failed" {
		t.Fatalf("sessions: %+v", list.Sessions)
	}
	why := list.Sessions[0].Error
	if why == nil || why.Message != text || *why.Agent != "brief" || *why.Code != 9 || !strings.Contains(*why.Stderr, "boom at init") {
		t.Errorf("error in the list: %+v", why)
	}
	events := string(s.get(t, "/v1/sessions/a/events").want(t, 200).body)
	for _, part := range []string{`"session.ended"`, `"terminated_by":"agent"`, `"exit_code":9`, `"stderr":"boom at init`, `"message":"` + text + `"`} {
		if !strings.Contains(events, part) {
			t.Errorf("%s is not in %s", part, events)
		}
	}
	p := s.send(t, "/v1/acp/b?agent=brief", acpEcho).problem(t, 500, "agent_process_exited")
	if p["detail"] != text || p["agent"] != "brief" {
		t.Errorf("problem = %v", p)
	}
}

// The end of an agent in the middle of a turn tells what it last wrote, too.
func TestSessionAgentEndsInTurn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "agent")
	const script = `#!/bin/sh
read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read -r line; echo boom in the turn >&2; exit 9
`
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := serve(t, agentsConfig(t, registry.Custom{ID: "brief", Command: []string{file}}))
	s.post(t, "/v1/sessions/a", `{"agent":"brief"}`).want(t, 200)
	s.post(t, "/v1/sessions/a/messages", `{"message":"hello"}`)
	var events string
	for end := time.Now().Add(time.Minute); !strings.Contains(events, `"session.ended"`); {
		if events = string(s.get(t, "/v1/sessions/a/events").want(t, 200).body); time.Now().After(end) {
			t.Fatalf("no end in %s", events)
		}
	}
	for _, part := range []string{`"terminated_by":"agent"`, `"exit_code":9`, `"stderr":"boom in the turn`} {
		if !strings.Contains(events, part) {
			t.Errorf("%s is not in %s", part, events)
		}
	}
}
