package httpapi

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/mockagent"
)

// The answer to the making of a session begins before clients give up on it, as
// when the agent has to be installed, and tells in the end what became of it.
func TestLongCreate(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	cfg := Config{}
	cfg.AgentHost.Launch = func(ctx context.Context, _ string) (agents.Launch, error) {
		select {
		case <-gate:
			return agents.Launch{Run: func(ctx context.Context, in io.Reader, out io.Writer) error {
				return mockagent.Run(ctx, in, out, mockagent.Config{})
			}}, nil
		case <-ctx.Done():
			return agents.Launch{}, ctx.Err()
		}
	}
	s := serve(t, cfg)
	s.rest.Early, s.rest.Beat = 20*time.Millisecond, 30*time.Millisecond
	create := fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())
	rest := s.beginLong(t, "/v1/sessions/late", create)
	close(gate)
	if text, err := io.ReadAll(rest); err != nil || !strings.HasPrefix(strings.TrimSpace(string(text)), `{"healthy":true,"nativeSessionId":"`) {
		t.Errorf("answer = %s, %v", text, err)
	}
	s.rest.Early = time.Minute
	s.post(t, "/v1/sessions/late", create).problem(t, 409, "session_already_exists")
}

func TestLongCreateFails(t *testing.T) {
	t.Parallel()
	cfg := agentsConfig(t)
	gate := slowNPM(t, &cfg)
	s := serve(t, cfg)
	s.rest.Early, s.rest.Beat = 20*time.Millisecond, 30*time.Millisecond
	rest := s.beginLong(t, "/v1/sessions/late", fmt.Sprintf(`{"agent":"gemini","directory":%q}`, t.TempDir()))
	if err := os.WriteFile(gate, []byte("bad\n"), 0); err != nil {
		t.Fatal(err)
	}
	want := `{"healthy":false,"error":{"type":"install_failed","message":"install failed: gemini: `
	if text, err := io.ReadAll(rest); err != nil || !strings.HasPrefix(strings.TrimSpace(string(text)), want) {
		t.Errorf("answer = %s, %v", text, err)
	}
}
