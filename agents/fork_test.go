package agents_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestFork: a fork has the turns before an entry, its agent is told of them with the first
// prompt, and the other session does not change.
func TestFork(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "received")
	h := host(t, agents.Config{
		Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(`CAPS={"loadSession":true,"sessionCapabilities":{"resume":{}}}`, "RECEIVED="+file, "SESSIONS="+t.TempDir()),
	})
	id := newSession(t, h, "srv")
	prompt(t, h, "srv", id, "the first seal")
	prompt(t, h, "srv", id, "the second walrus")
	read := func(session string) (all []eventlog.Event) {
		t.Helper()
		all, err := h.Log().Read(within(t), agents.SessionStream(session), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := read(id)
	second := int64(0)
	for _, e := range before {
		if e.Kind == "session/prompt" {
			second = e.Seq
		}
	}
	s, err := h.Fork(within(t), id, agents.ForkOptions{ID: "fork", Title: "Copy", Before: second})
	if err != nil || s.State != eventlog.Idle || s.Continues != id || s.Title != "Copy" || s.Turns != 1 || s.Agent != "scripted" {
		t.Fatalf("fork = %+v, %v", s, err)
	}
	copied := payloads(read("fork"))
	if !strings.Contains(copied, "first seal") || strings.Contains(copied, "walrus") || !strings.Contains(copied, `"sessionId":"fork"`) || strings.Contains(copied, `"`+id+`"`) {
		t.Errorf("the copy has%s", copied)
	}
	turn, err := h.Prompt(within(t), "fork", []byte(`[{"type":"text","text":"and now"}]`))
	if err == nil {
		_, err = turn.Wait(within(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	got := received(t, file)
	got = got[strings.LastIndex(got, `"session/prompt"`):]
	if !strings.Contains(got, "first seal") || strings.Contains(got, "walrus") || !strings.Contains(got, "and now") {
		t.Errorf("the agent of the fork got %s", got)
	}
	if all := received(t, file); strings.Contains(all, `"session/load"`) || strings.Contains(all, `"session/resume"`) {
		t.Errorf("the agent was asked for a session that it never had:\n%s", all)
	}
	if after := read(id); len(after) != len(before) {
		t.Errorf("the other session has %d entries, it had %d", len(after), len(before))
	}
	for want, o := range map[error]agents.ForkOptions{agents.ErrSessionExists: {ID: "fork"}, nil: {ID: "whole"}} {
		if _, err := h.Fork(within(t), id, o); !errors.Is(err, want) {
			t.Errorf("fork to %s: %v", o.ID, err)
		}
	}
	if whole := payloads(read("whole")); !strings.Contains(whole, "walrus") {
		t.Errorf("a fork of everything has%s", whole)
	}
	if _, err := h.Fork(within(t), "none", agents.ForkOptions{ID: "other"}); !errors.Is(err, agents.ErrSessionNotFound) {
		t.Errorf("a fork of no session: %v", err)
	}
}

// TestForkOfForgedEntries: an agent that writes messages of clients and of the host does not change
// which turns a fork has.
func TestForkOfForgedEntries(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: agentOf()})
	id := newSession(t, h, "srv")
	forge := func(method, id string) {
		t.Helper()
		line := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"sessionId":%q,"prompt":[]}}`, method, id)
		post(t, h, "srv", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"raw","params":{"line":%q}}`, line))
	}
	prompt(t, h, "srv", id, "first")
	forge("session/prompt", id)
	prompt(t, h, "srv", id, "second")
	hangs := prompt1(t, h, "srv", promptOf(id, "hang"))
	follow(t, h, "srv", agents.Replay{}, "hanging")
	forge("session/ended", id)
	s, err := h.Fork(within(t), id, agents.ForkOptions{ID: "fork"})
	if err != nil || s.Turns != 2 {
		t.Errorf("fork = %+v, %v, want 2 turns", s, err)
	}
	if text := payloads(stream(t, h, "fork")); !strings.Contains(text, "you said: second") || strings.Contains(text, "hang") {
		t.Errorf("the fork has%s", text)
	}
	if err := h.Delete(within(t), "srv"); err != nil {
		t.Error(err)
	}
	<-hangs
}
