package agents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]agents.Message{
		`{"id":1,"method":"session/prompt","params":{"sessionId":"a\u0062"}}`: {Method: "session/prompt", Session: "ab", Request: true},
		`{"method":"session/cancel","params":{"sessionId":"a"}}`:              {Method: "session/cancel", Session: "a"},
		`{"id":1,"result":{"sessionId":"a"}}`:                                 {},
		`{"method":"x","params":{"sessionId":7}}`:                             {Method: "x"},
		`{"id":null,"method":"x","params":[]}`:                                {Method: "x", Request: true},
	} {
		if got, err := agents.Inspect([]byte(message)); err != nil || got != want {
			t.Errorf("Inspect(%s) = %+v, %v, want %+v", message, got, err, want)
		}
	}
	var bad *agents.EnvelopeError
	if _, err := agents.Inspect([]byte(`{`)); !errors.As(err, &bad) {
		t.Errorf("Inspect = %v", err)
	}
	if _, err := agents.Inspect([]byte(`[]`)); !errors.Is(err, agents.ErrNotObject) {
		t.Errorf("Inspect = %v", err)
	}
}

// When Submit returns, the message is in the log. Its answer follows.
func TestSubmit(t *testing.T) {
	t.Parallel()
	observed := make(chan string, 8)
	h := host(t, agents.Config{Observe: func(_, method string, _ json.RawMessage) { observed <- method }})
	scripted := agents.PostOptions{Agent: "scripted"}
	for message, want := range map[string]error{`{"id":1,"method":"echo"}`: agents.ErrAgentNeeded, `[]`: agents.ErrAgentNeeded} {
		if err := h.Submit(within(t), "srv", agents.PostOptions{}, []byte(message)); !errors.Is(err, want) {
			t.Errorf("Submit(%s) = %v, want %v", message, err, want)
		}
	}
	var bad *agents.EnvelopeError
	if err := h.Submit(within(t), "srv", scripted, []byte(`{`)); !errors.As(err, &bad) {
		t.Errorf("Submit = %v", err)
	}
	for _, message := range []string{
		`{"id":1,"method":"session/new","params":{"cwd":"/"}}`, `{"id":"x","method":"echo","params":1}`, `{"id":9,"result":{}}`,
	} {
		if err := h.Submit(within(t), "srv", scripted, []byte(message)); err != nil {
			t.Errorf("Submit(%s) = %v", message, err)
		}
	}
	follow(t, h, "srv", agents.Replay{All: true}, `"id":"x","result":1`)
	if got := <-observed; got != "session/new" {
		t.Errorf("observed %s", got)
	}
	if err := h.Submit(within(t), "srv", agents.PostOptions{}, []byte(`{"id":2,"method":"die"}`)); err != nil {
		t.Errorf("Submit = %v", err)
	}
	follow(t, h, "srv", agents.Replay{All: true}, "_adapter/agent_exited")
	var exited *agents.ExitedError
	if err := h.Submit(within(t), "srv", agents.PostOptions{}, []byte(`{"id":3,"method":"echo"}`)); !errors.As(err, &exited) {
		t.Errorf("Submit to an agent that ended = %v", err)
	}
}

// An agent that does not read its input blocks its clients only until their contexts end. It
// has to start within that time.
func TestSubmitToTheDeaf(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: shell("exec sleep 1000"), RequestTimeout: 5 * time.Second, MaxMessageBytes: 1 << 20})
	big, err := json.Marshal(map[string]any{"method": "x", "params": make([]byte, 700<<10)})
	if err != nil {
		t.Fatal(err)
	}
	deaf := agents.PostOptions{Agent: "deaf"}
	if err := h.Submit(within(t), "srv", deaf, big); err != nil {
		t.Fatal(err)
	}
	var late *agents.TimeoutError
	if err := h.Submit(within(t), "srv", deaf, big); !errors.As(err, &late) || late.Agent != "deaf" || late.Method != "x" {
		t.Errorf("Submit = %v", err)
	}
}

// An agent that answers nothing gets a limited number of requests.
func TestSubmitTooMany(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: shell("cat >/dev/null; exit 0")})
	mute := agents.PostOptions{Agent: "mute"}
	for i := range 4096 {
		if err := h.Submit(within(t), "srv", mute, []byte(`{"id":1,"method":"x"}`)); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if err := h.Submit(within(t), "srv", mute, []byte(`{"id":1,"method":"x"}`)); !errors.Is(err, agents.ErrTooManyRequests) {
		t.Errorf("one more: %v", err)
	}
	if err := h.Submit(within(t), "srv", mute, []byte(`{"method":"x"}`)); err != nil {
		t.Errorf("a notification: %v", err)
	}
}

// An agent that answers nothing gets a limited number of bytes that answers need.
func TestSubmitTooMuch(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: shell("cat >/dev/null; exit 0"), MaxMessageBytes: 1 << 20})
	mute := agents.PostOptions{Agent: "mute"}
	text := strings.Repeat("x", 300<<10)
	var err error
	for n := 0; err == nil; n++ {
		if n == 5 {
			t.Fatal("requests of 1500 KiB wait for answers")
		}
		err = h.Submit(within(t), "srv", mute, fmt.Appendf(nil, `{"id":1,"method":"session/set_mode","params":{"modeId":%q}}`, text))
	}
	if !errors.Is(err, agents.ErrTooManyRequests) {
		t.Errorf("one more: %v", err)
	}
}
