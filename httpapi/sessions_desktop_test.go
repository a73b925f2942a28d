package httpapi

import (
	"context"
	"fmt"
	"testing"

	"github.com/deskhand/deskhand/agents"
)

// TestDesktopComesBeforeInstall: who names a desktop that is not there waits for
// no install.
func TestDesktopComesBeforeInstall(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{AgentHost: agents.Config{Launch: func(context.Context, string) (agents.Launch, error) {
		t.Error("the agent is installed")
		return agents.Launch{}, context.Canceled
	}}})
	s.post(t, "/v1/sessions/new", fmt.Sprintf(`{"agent":"slow","directory":%q,"desktop":"nope"}`, t.TempDir())).problem(t, 404, "not_found")
	s.send(t, "/v1/acp/new?agent=slow&desktop=nope", acpEcho).problem(t, 404, "not_found")
	if got := string(s.get(t, "/v1/sessions").want(t, 200).body); got != `{"sessions":[]}`+"\n" && got != `{"sessions":[]}` {
		t.Errorf("sessions: %s", got)
	}
}
