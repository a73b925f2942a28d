package agents_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
)

// A message for an agent that is being ended because it was idle goes to the next process,
// however long the first one takes to end.
func TestMessageWhileIdleAgentEnds(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(context.Context, *agents.Host) error{
		"Post": func(ctx context.Context, h *agents.Host) error {
			_, err := h.Post(ctx, "ses-mine", agents.PostOptions{}, []byte(`{"id":1,"method":"echo","params":1}`))
			return err
		},
		"Submit": func(ctx context.Context, h *agents.Host) error {
			return h.Submit(ctx, "ses-mine", agents.PostOptions{}, []byte(`{"method":"echo"}`))
		},
		"Prompt": func(ctx context.Context, h *agents.Host) error {
			turn, err := h.Prompt(ctx, "mine", []byte(`[{"type":"text","text":"hello"}]`))
			if err == nil {
				_, err = turn.Wait(ctx)
			}
			return err
		},
		"SetMode": func(ctx context.Context, h *agents.Host) error { return h.SetMode(ctx, "mine", "b") },
		"Cancel":  func(ctx context.Context, h *agents.Host) error { return h.Cancel(ctx, "mine") },
		"SetPermissions": func(ctx context.Context, h *agents.Host) error {
			return h.SetPermissions(ctx, "mine", agents.Policy{Mode: agents.Allow})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "received")
			h := host(t, agents.Config{IdleTimeout: time.Millisecond, Launch: agentOf("IGNORE_EOF=1", "RECEIVED="+file, `MODES={"id":"a"},{"id":"b"}`)})
			create(t, h, "mine", agents.SessionOptions{})
			wait(t, func() error {
				if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "the end of the input") {
					return fmt.Errorf("the agent got %s: %w", b, err)
				}
				return nil
			})
			if err := send(within(t), h); err != nil {
				t.Error(err)
			}
			if name != "Submit" {
				return
			}
			wait(t, func() error {
				if got := received(t, file); !strings.Contains(got, `"echo"`) {
					return fmt.Errorf("the agents got %s", got)
				}
				return nil
			})
		})
	}
}

// An agent is not idle while a session is prepared for it, for example while skills are
// fetched or a desktop starts.
func TestNotIdleWhileConfiguring(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "received")
	calls := 0 // the first is for its environment
	h := host(t, agents.Config{
		IdleTimeout: time.Millisecond, Launch: agentOf("IGNORE_EOF=1", "RECEIVED="+file),
		Mount: func(context.Context, context.Context, string, string) (agents.Mount, error) {
			if calls++; calls == 1 {
				return agents.Mount{}, nil
			}
			enough := time.After(2500 * time.Millisecond) // the interval of the checks is a second
			for {
				select {
				case <-enough:
					return agents.Mount{}, nil
				case <-time.After(time.Millisecond):
				}
				if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), "the end of the input") {
					return agents.Mount{}, nil
				}
			}
		},
	})
	create(t, h, "mine", agents.SessionOptions{Desktop: "d"})
}
