package agents_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// No API continues a session that has ended, although the agent still has it. A client that
// opens the session can use it again.
func TestEndedSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "received")
	cfg := agents.Config{
		Log: openLog(t, ""), StateDir: t.TempDir(),
		Launch: agentOf("SESSIONS="+t.TempDir(), "RECEIVED="+file, `CAPS={"loadSession":true}`),
	}
	h := host(t, cfg)
	post(t, h, "srv", initialize)
	id, other := newSession(t, h, "srv"), newSession(t, h, "srv")
	prompt(t, h, "srv", id, "before")
	if err := h.Terminate(within(t), id); err != nil {
		t.Fatal(err)
	}
	refused := func(message string) {
		t.Helper()
		answer := post(t, h, "srv", message)
		if member(t, answer, "error", "code") != "-32602" || !strings.Contains(member(t, answer, "error", "message"), "session has ended: "+id) || member(t, answer, "id") != "2" {
			t.Errorf("answer = %s", answer)
		}
	}
	for range 2 {
		refused(promptOf(id, "afterwards"))
		refused(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/set_mode","params":{"sessionId":%q,"modeId":"afterwards"}}`, id))
		submitted := fmt.Sprintf(`{"jsonrpc":"2.0","id":"mine","method":"session/prompt","params":{"sessionId":%q,"prompt":[]}}`, id)
		if err := h.Submit(within(t), "srv", agents.PostOptions{}, []byte(submitted)); err != nil {
			t.Fatal(err)
		}
		follow(t, h, "srv", agents.Replay{}, `"id":"mine","error"`)
		prompt(t, h, "srv", other, "the others go on")
		checkEnded(t, h, id)
		h = restart(t, h, cfg)
	}
	if got := received(t, file); strings.Contains(got, "afterwards") || strings.Contains(got, `"prompt":[]`) {
		t.Errorf("the agent got %s", got)
	}
	post(t, h, "srv", fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"session/load","params":{"sessionId":%q,"cwd":"/","mcpServers":[]}}`, id))
	stateOf(t, h, id, eventlog.Idle)
	if got := prompt(t, h, "srv", id, "again"); !strings.Contains(got, "end_turn") {
		t.Errorf("answer = %s", got)
	}
}

// A session that has ended and is opened by a client continues under its id in all lists of
// sessions, also if the agent has another id for it.
func TestEndedSessionGoesOn(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"session/load", "session/resume"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			h := host(t, agents.Config{Launch: agentOf("SESSIONS=" + t.TempDir())})
			create(t, h, "mine", agents.SessionOptions{
				Title: "T", Origin: "rest", Cwd: "/", Permissions: &agents.Policy{Mode: agents.Reject},
			})
			finish(t, say(t, h, "mine", "before"))
			if err := h.Terminate(within(t), "mine"); err != nil {
				t.Fatal(err)
			}
			was, err := h.Session(within(t), "mine")
			if err != nil {
				t.Fatal(err)
			}
			post(t, h, "srv", initialize)
			answer := post(t, h, "srv", `{"jsonrpc":"2.0","id":3,"method":"`+method+`","params":{"sessionId":"mine","cwd":"/","mcpServers":[]}}`)
			if strings.Contains(answer, "error") {
				t.Fatal(answer)
			}
			prompt(t, h, "srv", "mine", "ask")
			now := stateOf(t, h, "mine", eventlog.Idle)
			was.State, was.EndReason, was.EndedAt, was.Server, was.UpdatedAt = now.State, "", now.EndedAt, "srv", now.UpdatedAt
			was.Modes, was.Data, was.Turns = now.Modes, now.Data, was.Turns+1
			if !reflect.DeepEqual(now, was) || !now.EndedAt.IsZero() {
				t.Errorf("session = %+v\nwas %+v", now, was)
			}
			text := payloads(stream(t, h, "mine"))
			for _, want := range []string{"you said: before", "session/ended", `"session/restored","params":{"method":"` + method, "no-3"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s is not in the stream:%s", want, text)
				}
			}
		})
	}
}

// A session that continues the history of another record names it: a session that a client
// opens by the agent's id, and a fork.
func TestContinues(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: agentOf("SESSIONS=" + t.TempDir())})
	made := create(t, h, "mine", agents.SessionOptions{})
	finish(t, say(t, h, "mine", "before"))
	for _, server := range []string{"one", "two"} { // also when there is a record of that name
		post(t, h, server, fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"session/load","params":{"sessionId":%q,"cwd":"/","mcpServers":[]}}`, made.Native))
		prompt(t, h, server, made.Native, "again")
		if s, err := h.Session(within(t), made.Native); err != nil || s.Continues != "mine" {
			t.Errorf("session = %+v, %v", s, err)
		}
	}
	answer := post(t, h, "two", fmt.Sprintf(`{"jsonrpc":"2.0","id":4,"method":"session/fork","params":{"sessionId":%q,"cwd":"/","mcpServers":[]}}`, made.Native))
	var fork string
	if err := json.Unmarshal([]byte(member(t, answer, "result", "sessionId")), &fork); err != nil {
		t.Fatal(err)
	}
	if s, err := h.Session(within(t), fork); err != nil || s.Continues != made.Native {
		t.Errorf("fork = %+v, %v", s, err)
	}
}
