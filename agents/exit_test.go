package agents_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testlog"
)

// The error of an agent that ends before it has answered initialize is as complete as the
// error of an agent that ends later.
func TestEndsBeforeInitialize(t *testing.T) {
	t.Parallel()
	const words = "first\nsecond\n\n\x1b[31mboom at init\nhopeless"
	for _, c := range []struct{ name, script, text, signal string }{
		{"code", `printf 'first\nsecond\n\n\033[31mboom at init\nhopeless' >&2; exit 9`, "agent process exited: scripted (exit code 9): second | [31mboom at init | hopeless", ""},
		{"signal", `printf 'first\nsecond\n\n\033[31mboom at init\nhopeless' >&2; kill -KILL $$`, "agent process exited: scripted (SIGKILL): second | [31mboom at init | hopeless", "SIGKILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log testlog.Buffer
			h := host(t, agents.Config{Launch: shell(c.script), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			_, err := h.CreateSession(within(t), "x", agents.SessionOptions{Agent: "scripted", Cwd: "/"})
			var exited *agents.ExitedError
			if !errors.As(err, &exited) || exited.Agent != "scripted" || exited.Stderr != words || exited.Signal != c.signal || (exited.Code == nil) != (c.signal != "") {
				t.Fatalf("CreateSession = %#v", err)
			}
			if exited.Error() != c.text {
				t.Errorf("text = %q", exited)
			}
			s := stateOf(t, h, "x", eventlog.Failed)
			for _, part := range []string{`"agent":"scripted"`, `boom at init`, `"message":"agent process exited: scripted`} {
				if !strings.Contains(string(s.Error), part) {
					t.Errorf("%s is not in the session's error %s", part, s.Error)
				}
			}
			events, err := h.Log().Read(within(t), agents.SessionStream("x"), 0, 10)
			if err != nil || len(events) != 1 || !strings.Contains(string(events[0].Payload), `"stderr":"first\nsecond`) {
				t.Errorf("events = %s, %v", payloads(events), err)
			}
			if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "agent=scripted") || !strings.Contains(text, "boom at init") {
				t.Errorf("log = %s", text)
			}
		})
	}
}

// The error of a turn whose process exits has the end of the agent's standard error. The error
// of a process that the host ends does not.
func TestEndsInTurn(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: agentOf("DIE_AT=session/prompt")})
	create(t, h, "x", agents.SessionOptions{})
	say(t, h, "x", "hello")
	stateOf(t, h, "x", eventlog.Interrupted)
	const want = `"params":{"success":false,"code":7,"stderr":"dying at session/prompt`
	if text := payloads(stream(t, h, "x")); !strings.Contains(text, want) {
		t.Errorf("%s is not in %s", want, text)
	}

	h = host(t, agents.Config{Launch: shell(`echo words >&2; read -r line; echo '{"method":"ready"}'; exec sleep 1000`)})
	post(t, h, "srv", `{"method":"hello"}`)
	follow(t, h, "srv", agents.Replay{}, "ready")
	if err := h.Delete(within(t), "srv"); err != nil {
		t.Fatal(err)
	}
	events, err := h.Log().Read(within(t), "acp:srv", 0, 10)
	if text := payloads(events); err != nil || !strings.Contains(text, "agent_exited") || strings.Contains(text, "words") {
		t.Errorf("events = %s, %v", text, err)
	}
}

// The text of an error has only readable parts of the agent's standard error.
func TestExitedErrorIsShort(t *testing.T) {
	t.Parallel()
	e := &agents.ExitedError{Agent: "a", Stderr: strings.Repeat("long ", 1000)}
	if text := e.Error(); len(text) > 600 || !strings.Contains(text, "...") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	if text := (&agents.ExitedError{Agent: "a"}).Error(); text != "agent process exited: a" {
		t.Errorf("%q", text)
	}
}
