package agents_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// opening is a session "s" that a host is opening. Its agent asks for permission meanwhile.
// done gets the answer to the request that opens it.
type opening struct {
	h    *agents.Host
	file string // what the agent got
	gate string // without which it does not ask
	done chan error
}

// openAsking begins to open a session by a method, for a client that sends the method or for a
// client that prompts.
func openAsking(t *testing.T, method string, client bool, env ...string) *opening {
	t.Helper()
	dir := t.TempDir()
	caps := `CAPS={"loadSession":true}`
	if method == "session/resume" {
		caps = `CAPS={"sessionCapabilities":{"resume":{}}}`
	}
	env = append(env, caps, "SESSIONS="+t.TempDir())
	cfg := agents.Config{
		Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(env...), Permissions: agents.Policy{Mode: agents.Allow},
	}
	o := &opening{host(t, cfg), filepath.Join(dir, "received"), filepath.Join(dir, "gate"), make(chan error, 1)}
	create(t, o.h, "s", agents.SessionOptions{})
	cfg.Launch = agentOf(append(env, "RECEIVED="+o.file, "GATE="+o.gate, "ASK_AT="+method)...)
	o.h = restart(t, o.h, cfg)
	ctx := within(t)
	go func() {
		if client {
			_, err := o.h.Post(ctx, "ses-s", agents.PostOptions{}, []byte(
				`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"sessionId":"s","cwd":"/","mcpServers":[]}}`))
			o.done <- err
			return
		}
		_, err := o.h.Prompt(ctx, "s", []byte(`[{"type":"text","text":"go"}]`))
		o.done <- err
	}()
	o.got(t, `"`+method+`"`)
	return o
}

// got waits until the agent has got a message.
func (o *opening) got(t *testing.T, want string) {
	t.Helper()
	wait(t, func() error {
		if b, err := os.ReadFile(o.file); err != nil || !strings.Contains(string(b), want) {
			return fmt.Errorf("the agent got %s: %w", b, err)
		}
		return nil
	})
}

// letAsk lets the agent ask.
func (o *opening) letAsk(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(o.gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// asked waits for the question and returns it.
func (o *opening) asked(t *testing.T) (q eventlog.Request) {
	t.Helper()
	wait(t, func() error {
		all, err := o.h.Requests(t.Context(), "s")
		if err != nil || len(all) != 1 {
			return fmt.Errorf("questions: %v, %w", all, err)
		}
		q = all[0]
		return nil
	})
	return q
}

// A question of an agent that is opening a session belongs to that session, and the session's
// present policy applies.
func TestQuestionWhileOpening(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"session/load", "session/resume"} {
		for name, client := range map[string]bool{"client": true, "host": false} {
			for _, mode := range []agents.Mode{agents.Reject, agents.Ask} {
				t.Run(fmt.Sprint(method, " ", name, " ", mode), func(t *testing.T) {
					t.Parallel()
					o := openAsking(t, method, client)
					if err := o.h.SetPermissions(within(t), "s", agents.Policy{Mode: mode}); err != nil {
						t.Fatal(err)
					}
					o.letAsk(t)
					if mode == agents.Ask {
						q := o.asked(t)
						if err := o.h.Answer(within(t), "s", q.PublicID, agents.Reply{Option: "no-3"}); err != nil {
							t.Fatal(err)
						}
					}
					if err := <-o.done; err != nil {
						t.Fatal(err)
					}
					s := stateOf(t, o.h, "s", eventlog.Idle)
					if s.Permissions.Mode != mode {
						t.Errorf("permissions = %+v", s.Permissions)
					}
					text := payloads(stream(t, o.h, "s"))
					if !strings.Contains(text, `"session/request_permission","params":{"sessionId":"s"`) || !strings.Contains(text, `"selected","optionId":"no-3"`) {
						t.Errorf("the session's stream:%s", text)
					}
				})
			}
		}
	}
}

// A question that is still open when its session has been opened holds up the turn like any
// other. Before that, it does not change the session's row.
func TestQuestionOutlastsOpening(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"session/load", "session/resume"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			o := openAsking(t, method, true, "ASK_ON=1")
			if err := o.h.SetPermissions(within(t), "s", agents.Policy{}); err != nil {
				t.Fatal(err)
			}
			o.letAsk(t)
			if err := <-o.done; err != nil {
				t.Fatal(err)
			}
			q := o.asked(t)
			stateOf(t, o.h, "s", eventlog.Waiting)
			if err := o.h.Answer(within(t), "s", q.PublicID, agents.Reply{Cancel: true}); err != nil {
				t.Fatal(err)
			}
			stateOf(t, o.h, "s", eventlog.Idle)
		})
	}
}

// A session whose agent ends while it opens the session and asks stays unchanged.
func TestExitWhileOpening(t *testing.T) {
	t.Parallel()
	o := openAsking(t, "session/load", true)
	if err := o.h.SetPermissions(within(t), "s", agents.Policy{}); err != nil {
		t.Fatal(err)
	}
	o.letAsk(t)
	o.asked(t)
	if err := o.h.Delete(within(t), "ses-s"); err != nil {
		t.Fatal(err)
	}
	if err := <-o.done; !errors.Is(err, agents.ErrServerNotFound) {
		t.Errorf("session/load = %v", err)
	}
	stateOf(t, o.h, "s", eventlog.Idle)
	if s, err := o.h.Session(within(t), "s"); err != nil || s.Permissions.Mode != "" {
		t.Errorf("session = %+v, %v", s, err)
	}
}

// After another load has opened the session, a load that the host has given up does not make
// the agent's updates history.
func TestLoadNeverAnswered(t *testing.T) {
	t.Parallel()
	env := []string{`CAPS={"loadSession":true}`, "SESSIONS=" + t.TempDir()}
	cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(env...)}
	h := host(t, cfg)
	create(t, h, "s", agents.SessionOptions{})
	cfg.RestoreTimeout, cfg.Launch = time.Second, agentOf(append(env, "SILENT_ONCE=session/load")...)
	h = restart(t, h, cfg)
	_, err := h.Prompt(within(t), "s", []byte(`[{"type":"text","text":"first"}]`))
	if _, ok := errors.AsType[*agents.RestoreError](err); !ok {
		t.Fatalf("Prompt = %v", err)
	}
	var turn *agents.Turn
	wait(t, func() (err error) { // a slow machine may take more than one time again
		turn, err = h.Prompt(within(t), "s", []byte(`[{"type":"text","text":"second"}]`))
		return err
	})
	finish(t, turn)
	if text := payloads(stream(t, h, "s")); !strings.Contains(text, "you said: second") {
		t.Errorf("the session's stream:%s", text)
	}
}
