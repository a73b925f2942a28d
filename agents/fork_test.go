package agents_test

import (
	"errors"
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
