package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
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

// TestLongCallsEndWithToken: a call that waits for its work is answered when its token ends.
func TestLongCallsEndWithToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, body string }{
		{"/v1/sessions/late", fmt.Sprintf(`{"agent":"gemini","directory":%q}`, t.TempDir())},
		{"/v1/agents/gemini/install", "{}"},
	} {
		cfg := agentsConfig(t)
		gate := slowNPM(t, &cfg)
		s := serve(t, cfg)
		s.rest.Early = time.Hour
		id, value := s.token(t, `{"scope":"supervise"}`)
		called := make(chan answer, 1)
		go func() { called <- s.try(t.Context(), call{path: c.path, body: c.body, header: bearer(value)}) }()
		var npm *os.File
		eventually(t, "npm waits", func() bool {
			var err error
			npm, err = os.OpenFile(gate, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			return err == nil
		})
		s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
		select {
		case a := <-called:
			if a.err != nil || a.StatusCode != 401 {
				t.Errorf("%s: %v %d %s", c.path, a.err, a.StatusCode, a.body)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s is not answered", c.path)
		}
		_ = npm.Close() // the installation fails
	}
}
