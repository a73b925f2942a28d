package agents_test

import (
	"context"
	"errors"
	"testing"

	"github.com/deskhand/deskhand/agents"
)

// TestDesktopBeforeInstall: an agent is not installed for a desktop that does not exist.
func TestDesktopBeforeInstall(t *testing.T) {
	t.Parallel()
	broken := errors.New("no X server")
	h := host(t, agents.Config{
		Mount: func(context.Context, context.Context, string, string) (agents.Mount, error) {
			return agents.Mount{}, broken
		},
		Launch: func(context.Context, string) (agents.Launch, error) {
			t.Error("the agent is installed")
			return agents.Launch{}, context.Canceled
		},
	})
	o := agents.SessionOptions{Agent: "scripted", Cwd: t.TempDir(), Desktop: "7"}
	if _, err := h.CreateSession(within(t), "new", o); !errors.Is(err, broken) {
		t.Errorf("CreateSession = %v, want %v", err, broken)
	}
}
