package agents_test

import (
	"errors"
	"math"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// A further agent does not start while Config.MaxAgents run, and starts when one has ended.
func TestMaxAgents(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{MaxAgents: 2})
	dir := t.TempDir()
	create(t, h, "one", agents.SessionOptions{})
	post(t, h, "two", `{"id":1,"method":"echo","params":1}`)
	if _, err := h.CreateSession(within(t), "three", agents.SessionOptions{Agent: "scripted", Cwd: dir}); !errors.Is(err, agents.ErrTooManyAgents) {
		t.Errorf("CreateSession = %v", err)
	}
	if _, err := h.Session(within(t), "three"); !errors.Is(err, agents.ErrSessionNotFound) {
		t.Errorf("the refused session is in the log: %v", err)
	}
	if _, err := h.Post(within(t), "four", agents.PostOptions{Agent: "scripted"}, []byte(`{"id":1,"method":"echo"}`)); !errors.Is(err, agents.ErrTooManyAgents) {
		t.Errorf("Post = %v", err)
	}
	post(t, h, "two", `{"id":2,"method":"echo","params":1}`) // its agent runs
	if err := h.Terminate(within(t), "one"); err != nil {
		t.Fatal(err)
	}
	wait(t, func() error {
		_, err := h.CreateSession(within(t), "three", agents.SessionOptions{Agent: "scripted", Cwd: dir})
		return err
	})
	stateOf(t, h, "three", eventlog.Idle)
}

// No agent starts without enough memory.
func TestMinMemory(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{MinMemory: math.MaxInt64})
	if _, err := h.CreateSession(within(t), "one", agents.SessionOptions{Agent: "scripted", Cwd: t.TempDir()}); !errors.Is(err, agents.ErrNoMemory) {
		t.Errorf("CreateSession = %v", err)
	}
	if _, err := h.Post(within(t), "two", agents.PostOptions{Agent: "scripted"}, []byte(`{"id":1,"method":"echo"}`)); !errors.Is(err, agents.ErrNoMemory) {
		t.Errorf("Post = %v", err)
	}
}
