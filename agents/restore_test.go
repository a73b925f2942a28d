package agents_test

import (
	"encoding/json"
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

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"mark":"mine"}}`

// newSession makes a session the way clients do, and returns its id.
func newSession(t testing.TB, h *agents.Host, server string) string {
	t.Helper()
	answer := post(t, h, server, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, t.TempDir()))
	var id string
	if err := json.Unmarshal([]byte(member(t, answer, "result", "sessionId")), &id); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	return id
}

func prompt(t testing.TB, h *agents.Host, server, session, text string) string {
	t.Helper()
	return post(t, h, server, promptOf(session, text))
}

func promptOf(session, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}}`, session, text)
}

// received returns the messages that all processes of the scripted agent got.
func received(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// restart closes a host and starts the next one on its log.
func restart(t testing.TB, h *agents.Host, cfg agents.Config) *agents.Host {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return host(t, cfg)
}

func TestRestore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, caps string
		method     string
		forgets    bool // the agent keeps no sessions
	}{
		{"resume", `{"loadSession":true,"sessionCapabilities":{"resume":{}}}`, "session/resume", false},
		{"load", `{"loadSession":true}`, "session/load", false},
		{"text", `{}`, "session/new", false},
		{"refused", `{"loadSession":true,"sessionCapabilities":{"resume":{}}}`, "session/new", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "received")
			env := []string{"CAPS=" + c.caps, "RECEIVED=" + file}
			if !c.forgets {
				env = append(env, "SESSIONS="+dir)
			}
			cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(env...)}
			h := host(t, cfg)
			post(t, h, "srv", initialize)
			id := newSession(t, h, "srv")
			prompt(t, h, "srv", id, "remember the seal")
			last := follow(t, h, "srv", agents.Replay{}, "end_turn")
			seen := last[len(last)-1].Seq
			h = restart(t, h, cfg)

			// The client knows nothing of it: no agent, the same session.
			answer, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "and now?")))
			if err != nil || !strings.Contains(string(answer), "end_turn") {
				t.Fatalf("prompt after the restart: %s, %v", answer, err)
			}
			checkContinued(t, h, id, seen, c.method)
			got := received(t, file)
			if n := strings.Count(got, `"mark":"mine"`); n != 2 {
				t.Errorf("the client's initialize came %d times:\n%s", n, got)
			}
			if !strings.Contains(got, `"method":"`+c.method+`"`) {
				t.Errorf("no %s in\n%s", c.method, got)
			}
			told := strings.Contains(got[strings.LastIndex(got, "session/prompt"):], "remember the seal")
			if told != (c.method == "session/new") {
				t.Errorf("the prompt has the history: %v:\n%s", told, got)
			}
			if c.name == "text" || c.name == "refused" {
				// The session goes on under the agent's new name for it.
				prompt(t, h, "srv", id, "third")
				h = restart(t, h, cfg)
				if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "fourth"))); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// checkContinued checks the events of a client that continues after its last event.
func checkContinued(t *testing.T, h *agents.Host, id string, seen int64, method string) {
	t.Helper()
	events := follow(t, h, "srv", agents.Replay{After: seen}, "end_turn")
	text := payloads(events)
	if events[0].Seq != seen+1 {
		t.Errorf("the events go on at %d after %d", events[0].Seq, seen)
	}
	for _, no := range []string{"again:", `"method":"initialize"`} {
		if strings.Contains(text, no) {
			t.Errorf("the client sees %q:%s", no, text)
		}
	}
	if !strings.Contains(text, "and now?") || !strings.Contains(text, `"sessionId":"`+id+`"`) {
		t.Errorf("events after the restart:%s", text)
	}
	s, err := h.Session(within(t), id)
	if err != nil || s.State != eventlog.Idle {
		t.Errorf("session = %+v, %v", s, err)
	}
	all, err := h.Log().Read(within(t), agents.SessionStream(id), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	restored := 0
	for _, e := range all {
		if e.Kind == "session/restored" && strings.Contains(string(e.Payload), `"method":"`+method+`"`) {
			restored++
		}
	}
	if restored != 1 || all[0].Kind != "session/new" || all[1].Kind != "response:session/new" {
		t.Errorf("session's stream:%s", payloads(all))
	}
}

func TestRestoreTimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := agents.Config{
		Log: openLog(t, ""), StateDir: t.TempDir(),
		Launch: agentOf(`CAPS={"loadSession":true}`, "SESSIONS="+dir),
	}
	h := host(t, cfg)
	post(t, h, "srv", initialize)
	id := newSession(t, h, "srv")
	before, err := h.Session(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Launch = agentOf(`CAPS={"loadSession":true}`, "SESSIONS="+dir, "SILENT_AT=session/load")
	cfg.RestoreTimeout = 300 * time.Millisecond
	h = restart(t, h, cfg)
	_, err = h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "hello")))
	var lost *agents.RestoreError
	var late *agents.TimeoutError
	if !errors.As(err, &lost) || !errors.As(err, &late) {
		t.Fatalf("prompt = %v", err)
	}
	after, err := h.Session(within(t), id)
	if err != nil || after.Native != before.Native {
		t.Errorf("native id = %q, was %q; %v", after.Native, before.Native, err)
	}
	cfg.Launch = agentOf(`CAPS={"loadSession":true}`, "SESSIONS="+dir)
	cfg.RestoreTimeout = 0
	h = restart(t, h, cfg)
	if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "hello"))); err != nil {
		t.Errorf("the next try: %v", err)
	}
}

func TestResumedElsewhereIsLinked(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	first := newSession(t, h, "one")
	second := newSession(t, h, "two")
	history := `Previous session history is replayed below as JSON-RPC envelopes: {"params":{"sessionId":"` + first + `"}}`
	prompt(t, h, "two", second, history)
	s, err := h.Session(within(t), second)
	if err != nil || s.Continues != first {
		t.Errorf("session continues %q, want %q; %v", s.Continues, first, err)
	}
}

// The problems of a folder's configuration are recorded when a session is opened again, as
// when it is made.
func TestRestoreProblems(t *testing.T) {
	t.Parallel()
	cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir()}
	h := host(t, cfg)
	cwd := t.TempDir()
	create(t, h, "s", agents.SessionOptions{Cwd: cwd})
	folder := filepath.Join(cwd, ".sandbox-agent", "config")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "mcp.json"), []byte(`{"bad":{"type":"remote"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h = restart(t, h, cfg)
	finish(t, say(t, h, "s", "hello"))
	if got := problems(t, h, "s"); len(got) != 1 || !strings.Contains(got[0], "bad") {
		t.Errorf("problems: %q", got)
	}
}
