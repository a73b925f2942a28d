package agents_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// Nobody goes on with a session that has ended, on whichever way, although the agent
// has it still; a client that opens it has it again.
func TestEndedSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "received")
	cfg := agents.Config{
		Log: openLog(t, ""), StateDir: t.TempDir(),
		Launch: agentOf("SESSIONS="+t.TempDir(), "RECEIVED="+file, `CAPS={"loadSession":true}`),
	}
	h := host(t, cfg)
	post(t, h, "srv", initialize)
	id, other := newSession(t, h, "srv"), newSession(t, h, "srv")
	prompt(t, h, "srv", id, "before")
	if err := h.Terminate(within(t), id); err != nil {
		t.Fatal(err)
	}
	refused := func(message string) {
		t.Helper()
		answer := post(t, h, "srv", message)
		if member(t, answer, "error", "code") != "-32602" || !strings.Contains(member(t, answer, "error", "message"), "session has ended: "+id) || member(t, answer, "id") != "2" {
			t.Errorf("answer = %s", answer)
		}
	}
	for range 2 {
		refused(promptOf(id, "afterwards"))
		refused(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/set_mode","params":{"sessionId":%q,"modeId":"afterwards"}}`, id))
		submitted := fmt.Sprintf(`{"jsonrpc":"2.0","id":"mine","method":"session/prompt","params":{"sessionId":%q,"prompt":[]}}`, id)
		if err := h.Submit(within(t), "srv", agents.PostOptions{}, []byte(submitted)); err != nil {
			t.Fatal(err)
		}
		follow(t, h, "srv", agents.Replay{}, `"id":"mine","error"`)
		prompt(t, h, "srv", other, "the others go on")
		checkEnded(t, h, id)
		h = restart(t, h, cfg)
	}
	if got := received(t, file); strings.Contains(got, "afterwards") || strings.Contains(got, `"prompt":[]`) {
		t.Errorf("the agent got %s", got)
	}
	post(t, h, "srv", fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"session/load","params":{"sessionId":%q,"cwd":"/","mcpServers":[]}}`, id))
	stateOf(t, h, id, eventlog.Idle)
	if got := prompt(t, h, "srv", id, "again"); !strings.Contains(got, "end_turn") {
		t.Errorf("answer = %s", got)
	}
}
