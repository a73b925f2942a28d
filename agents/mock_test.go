package agents_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/registry"
)

// withoutMock returns a registry that finds no command for the agent mock.
func withoutMock(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := registry.New(registry.Config{Mock: []string{"/nonexistent/deskhand"}})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)
	return r
}

// TestMockAsUser: the agent mock does not run inside this program if agents run as another user.
func TestMockAsUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may run agents as another user")
	}
	h := host(t, agents.Config{Registry: withoutMock(t), RunAs: "www-data"})
	_, err := h.CreateSession(within(t), "m", agents.SessionOptions{Agent: "mock", Cwd: t.TempDir()})
	if !errors.Is(err, registry.ErrNotInstalled) {
		t.Errorf("as another user: %v", err)
	}
	h = host(t, agents.Config{Registry: withoutMock(t), RunAs: "root"})
	if _, err := h.CreateSession(within(t), "m", agents.SessionOptions{Agent: "mock", Cwd: t.TempDir()}); err != nil {
		t.Errorf("as this program's user: %v", err)
	}
}

// TestMockEnvironment: MCP servers of the agent mock inside this program get no secrets.
func TestMockEnvironment(t *testing.T) {
	t.Setenv("MOCK_SECRET", "hunter2")
	h := host(t, agents.Config{Registry: withoutMock(t), Secrets: []string{"MOCK_SECRET"}})
	_, err := h.CreateSession(within(t), "m", agents.SessionOptions{Agent: "mock", Cwd: t.TempDir(), MCPServers: []agents.MCPServer{
		{Name: "x", Command: "sh", Args: []string{"-c", `echo "secret=$MOCK_SECRET other=$OTHER" >&2; exit 1`}, Env: map[string]string{"OTHER": "given"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, say(t, h, "m", "tool nothing"))
	if got := payloads(stream(t, h, "m")); !strings.Contains(got, "secret= other=given") {
		t.Errorf("an MCP server wrote: %s", got)
	}
}
