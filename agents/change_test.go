package agents_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// A change of a session whose process is about to end is still there after that end.
func TestChangeWhileEnding(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: agentOf("IGNORE_EOF=1")})
	create(t, h, "terminated", agents.SessionOptions{})
	create(t, h, "restricted", agents.SessionOptions{})
	for _, id := range []string{"terminated", "restricted"} {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Delete(gone, "ses-"+id); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Terminate(within(t), "terminated"); err != nil {
		t.Fatal(err)
	}
	if err := h.SetPermissions(within(t), "restricted", agents.Policy{Mode: agents.Reject}); err != nil {
		t.Fatal(err)
	}
	wait(t, func() error {
		processes, err := h.Log().Processes(t.Context(), eventlog.ProcessFilter{Open: true})
		if err == nil && len(processes) > 0 {
			err = errors.New("the processes have not ended")
		}
		return err
	})
	checkEnded(t, h, "terminated")
	if s, err := h.Session(within(t), "restricted"); err != nil || s.Permissions.Mode != agents.Reject {
		t.Errorf("session = %+v, %v", s, err)
	}
}

// A change of a session that the host or a client is opening stays, also if the opening began
// at the moment of the change.
func TestChangeWhileOpening(t *testing.T) {
	t.Parallel()
	prompt := func(h *agents.Host) error {
		turn, err := h.Prompt(t.Context(), "s", []byte(`[{"type":"text","text":"go"}]`))
		if err == nil {
			_, err = turn.Wait(t.Context())
		}
		return err
	}
	for name, c := range map[string]struct {
		until, gate string // what the agent has got when the policy is changed, and what it does not answer
		open        func(*agents.Host) error
	}{
		"before it is opened": {"session/load", "session/load", prompt},
		"when it is opened":   {"session/set_mode", "", prompt},
		"by a client": {"session/load", "session/load", func(h *agents.Host) error {
			_, err := h.Post(t.Context(), "ses-s", agents.PostOptions{}, []byte(
				`{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/","mcpServers":[]}}`))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, gate := filepath.Join(dir, "received"), filepath.Join(dir, "gate")
			env := []string{actAs + "=chooser", "OFFERS=modes", `CAPS={"loadSession":true}`}
			cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(env...)}
			h := host(t, cfg)
			create(t, h, "s", agents.SessionOptions{Mode: "plan", Permissions: &agents.Policy{Mode: agents.Allow}})
			cfg.Launch = agentOf(append(env, "RECEIVED="+file, "GATE="+gate, "GATE_AT="+c.gate)...)
			h = restart(t, h, cfg)
			opened := make(chan error, 1)
			go func() { opened <- c.open(h) }()
			wait(t, func() error {
				if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), c.until) {
					return fmt.Errorf("the agent got %s: %w", b, err)
				}
				return nil
			})
			err := h.SetPermissions(within(t), "s", agents.Policy{Mode: agents.Reject})
			if err := errors.Join(err, os.WriteFile(gate, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := <-opened; err != nil {
				t.Fatal(err)
			}
			if err := prompt(h); err != nil { // which writes what the process knows
				t.Fatal(err)
			}
			if s, err := h.Session(within(t), "s"); err != nil || s.Permissions.Mode != agents.Reject {
				t.Errorf("session = %+v, %v", s, err)
			}
		})
	}
}
