package agents_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// answering returns an agent that answers a request with the member for its method, or with an
// empty result.
func answering(members map[string]string) func(context.Context, string) (agents.Launch, error) {
	return func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{Run: func(_ context.Context, in io.Reader, out io.Writer) error {
			for lines := bufio.NewScanner(in); lines.Scan(); {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
					return err
				}
				member := members[m.Method]
				if member == "" {
					member = `"result":{}`
				}
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, member)
			}
			return nil
		}}, nil
	}
}

// failure is an error with a message and data, which are as large as an agent likes.
func failure(size int) string {
	long := strings.Repeat("é<", size/3)
	return fmt.Sprintf(`"error":{"code":-32000,"message":"no: %s","data":{"x":"%s"}}`, long, long)
}

// What is kept of an agent's error is bounded. Clients of ACP get all of it.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	const size, most = 1 << 20, 5 << 10
	for name, failure := range map[string]string{
		"message": failure(size),
		"code":    `"error":{"code":` + strings.Repeat("9", size) + `}`,
	} {
		h := host(t, agents.Config{Launch: answering(map[string]string{"session/new": failure, "session/prompt": failure})})
		_, err := h.CreateSession(within(t), "x", agents.SessionOptions{Agent: "scripted", Cwd: "/"})
		refused, ok := errors.AsType[*agents.ResponseError](err)
		if !ok || len(err.Error()) > most || name == "message" && refused.Data != nil {
			t.Errorf("%s: CreateSession = %.100v", name, err)
		}
		s := stateOf(t, h, "x", eventlog.Failed)
		if len(s.Error) > most || len(s.EndReason) > most || !json.Valid(s.Error) || s.EndReason == "" {
			t.Errorf("%s: the session has an error of %d bytes and a reason of %d", name, len(s.Error), len(s.EndReason))
		}
		if got := post(t, h, "srv", `{"id":1,"method":"session/prompt","params":{}}`); !strings.Contains(got, failure) {
			t.Errorf("%s: a client got %d bytes", name, len(got))
		}
	}
}

// A problem of a session names a part of the agent's choices and errors.
func TestLongProblems(t *testing.T) {
	t.Parallel()
	modes := `"modes":{"currentModeId":"a","availableModes":[{"id":"a"},{"id":"b"},{"id":"` + strings.Repeat("c", 1<<19) + `"}]}`
	members := map[string]string{
		"initialize":       `"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}`,
		"session/new":      `"result":{"sessionId":"one",` + modes + `}`,
		"session/resume":   `"result":{` + modes + `}`,
		"session/set_mode": `"result":{}`,
	}
	cfg := agents.Config{Log: openLog(t, ""), Launch: answering(members)}
	h := host(t, cfg)
	create(t, h, "s", agents.SessionOptions{Mode: "b"})
	invalid, ok := errors.AsType[*agents.InvalidError](h.SetMode(within(t), "s", "d"))
	if !ok || len(invalid.Reason) > 5<<10 {
		t.Errorf("SetMode = %.100v", invalid)
	}
	members = maps.Clone(members)
	members["session/set_mode"] = failure(1 << 20)
	cfg.Launch = answering(members)
	h = restart(t, h, cfg)
	finish(t, say(t, h, "s", "hello"))
	all := problems(t, h, "s")
	if len(all) != 1 || len(all[0]) > 5<<10 || !strings.HasPrefix(all[0], `mode is not "b" any more: session/set_mode: no: é<`) {
		t.Errorf("%d problems: %.200q", len(all), all)
	}
}
