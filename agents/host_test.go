package agents_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	if got := post(t, h, "a1", `{"jsonrpc":"2.0","id":5,"method":"echo","params":{"n":1e400,"b":1, "a":12345678901234567890}}`); got != `{"jsonrpc":"2.0","id":5,"result":{"n":1e400,"b":1, "a":12345678901234567890}}` {
		t.Errorf("answer = %s", got)
	}
	events := follow(t, h, "a1", agents.Replay{}, "1e400")
	if len(events) != 1 || events[0].Seq != 1 {
		t.Errorf("events = %s", payloads(events))
	}
	if err := h.Delete(within(t), "a1"); err != nil {
		t.Fatal(err)
	}
	_, err := h.Follow(within(t), "a1", agents.Replay{})
	if !errors.Is(err, agents.ErrServerNotFound) {
		t.Errorf("Follow after Delete: %v", err)
	}
	_, err = h.Post(within(t), "a1", agents.PostOptions{}, []byte(`{"id":1,"method":"echo"}`))
	if !errors.Is(err, agents.ErrAgentNeeded) {
		t.Errorf("Post after Delete: %v", err)
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	_, err := h.Post(within(t), "a1", agents.PostOptions{Agent: "scripted"}, []byte(`{"id":1,"method":"die"}`))
	var exited *agents.ExitedError
	if !errors.As(err, &exited) || exited.Code == nil || *exited.Code != 7 || !strings.Contains(exited.Stderr, "last words") {
		t.Fatalf("Post = %v", err)
	}
	follow(t, h, "a1", agents.Replay{}, `_adapter/agent_exited","params":{"success":false,"code":7,"stderr":"last words`)
	_, err = h.Post(within(t), "a1", agents.PostOptions{}, []byte(`{"id":2,"method":"echo","params":1}`))
	if !errors.As(err, &exited) {
		t.Errorf("Post to an agent that ended = %v", err)
	}
	if got := post(t, h, "a1", `{"id":3,"method":"echo","params":1}`); got != `{"jsonrpc":"2.0","id":3,"result":1}` {
		t.Errorf("answer of the next process = %s", got)
	}
}
