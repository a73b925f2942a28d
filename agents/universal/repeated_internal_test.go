//go:build !race

package universal

// The race detector makes these tests ten times slower, and each uses one goroutine only.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// updated returns an agent's session/update.
func updated(update string) eventlog.Event {
	return eventlog.Event{Process: "life", Dir: eventlog.Agent, Kind: "session/update", Payload: []byte(`{"params":{"update":` + update + `}}`)}
}

// TestQuestionsAboutALargeCall: small questions about a large tool call make small events.
func TestQuestionsAboutALargeCall(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("<", 2<<20)
	for name, call := range map[string]string{
		"a plan":  `"kind":"switch_mode","title":"t","content":[{"type":"content","content":{"type":"text","text":"` + large + `"}}]`,
		"a title": `"kind":"other","title":"` + large + `"`,
	} {
		s := NewState("s1")
		s.Apply(updated(`{"sessionUpdate":"tool_call","toolCallId":"a",` + call + `}`))
		for i := range 10 {
			events := s.Apply(eventlog.Event{
				Seq: int64(i + 2), Process: "life", Dir: eventlog.Agent, Kind: "session/request_permission",
				Payload: fmt.Appendf(nil, `{"id":%d,"params":{"toolCall":{"toolCallId":"a"},"options":[]}}`, i),
			})
			if len(events) != 1 || len(events[0].Data) > 8*maxAction {
				t.Fatalf("%s: %d events, the first with %d bytes", name, len(events), len(events[0].Data))
			}
			if text := string(events[0].Data); name == "a plan" && !strings.Contains(text, "The session's log has it.") {
				t.Errorf("%s: %.300s", name, text)
			}
		}
	}
}

// TestIDsOfCalls: an id that many events would repeat is bounded.
func TestIDsOfCalls(t *testing.T) {
	t.Parallel()
	s := NewState("s1")
	events := s.Apply(updated(`{"sessionUpdate":"tool_call","toolCallId":"` + strings.Repeat("a", maxID+1) + `","status":"completed"}`))
	if len(events) != 1 || events[0].Type != Unparsed {
		t.Errorf("%d events, the first %.300s", len(events), events[0].Data)
	}
	s.Apply(eventlog.Event{Dir: eventlog.Agent, Kind: "response:session/new", Payload: []byte(`{"result":{"sessionId":"` + strings.Repeat("a", maxID+1) + `"}}`)})
	if s.Native != "" {
		t.Errorf("a native id of %d bytes", len(s.Native))
	}
}

// TestCallsThatEndTogether: only the end that an entry is about has the entry as its raw form.
func TestCallsThatEndTogether(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]eventlog.Event{
		"one more":    updated(`{"sessionUpdate":"tool_call","toolCallId":"last"}`),
		"a large one": updated(`{"sessionUpdate":"tool_call","toolCallId":"last","content":[` + strings.Repeat("{},", maxOpen/contentSize) + `{}]}`),
		"the turn":    {Process: "life", Dir: eventlog.Agent, Kind: "response:session/prompt", Payload: []byte(`{"id":1,"result":{}}`)},
	} {
		s := NewState("s1")
		s.Apply(eventlog.Event{Process: "life", Dir: eventlog.Client, Kind: "session/prompt", Payload: []byte(`{"id":1,"params":{"prompt":[]}}`)})
		for i := range maxTools {
			s.Apply(updated(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"%d"}`, i)))
		}
		events := s.Apply(last)
		raw := slices.DeleteFunc(events, func(e Event) bool { return e.Synthetic })
		if len(events) < 5 || len(raw) != 1 {
			t.Errorf("%s: %d events, %d of them with the entry", name, len(events), len(raw))
		}
	}
}

// TestBytesOfState: the size of a state has everything that the agent wrote.
func TestBytesOfState(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	for name, update := range map[string]string{
		"the type of a content": `{"sessionUpdate":"tool_call","toolCallId":"a","content":[{"type":"` + large + `"}]}`,
		"a text":                `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + large + `"}}`,
	} {
		s := NewState("s1")
		if s.Apply(updated(update)); s.size() < len(large) {
			t.Errorf("%s: %d bytes", name, s.size())
		}
	}
	s := NewState("s1")
	s.Apply(eventlog.Event{Dir: eventlog.Agent, Kind: agents.MethodForm, Payload: []byte(`{"id":1,"params":{"message":"` + large + `"}}`)})
	if s.size() < 2*len(large) {
		t.Errorf("a form: %d bytes", s.size())
	}
	s = NewState("s1")
	for range 2 * maxPending {
		s.Apply(updated(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""}}`))
	}
	if n := len(s.Text.Pending); n > maxPending {
		t.Errorf("%d chunks without text are kept", n)
	}
}
