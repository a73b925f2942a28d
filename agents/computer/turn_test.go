package computer_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
)

// TestTurn executes the calls in answers of each provider, and takes answers without calls and
// errors.
func TestTurn(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 800, Height: 600}})
	s, err := computer.NewServer(d, computer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		provider     computer.Provider
		calls, says  string // answers
		at           desktop.Point
		messages     int    // of calls
		first, third string // what begins the first message, and what the last one has
	}{
		{
			computer.Anthropic,
			`{"content":[{"type":"text","text":"I move."},{"type":"tool_use","id":"a","name":"computer","input":{"action":"mouse_move","coordinate":[30,20]}},{"type":"tool_use","id":"b","name":"computer","input":{"action":"fly"}}]}`,
			`{"content":[{"type":"text","text":"Ready."}]}`,
			desktop.Point{X: 30, Y: 20}, 2, `{"content":[{"type":"text"`, `"tool_use_id":"b"`,
		},
		{
			computer.OpenAI,
			`{"output":[{"type":"reasoning","content":null},{"type":"message","content":[{"text":"I move."}]},{"type":"computer_call","call_id":"c","actions":[{"type":"move","x":40,"y":50}]}]}`,
			`{"output":[{"type":"message","content":[{"text":"Ready."}]}]}`,
			desktop.Point{X: 40, Y: 50}, 4, `{"type":"reasoning"`, `"call_id":"c"`,
		},
		{
			computer.Gemini,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"I move."},{"functionCall":{"name":"move","args":{"x":500,"y":500}}}]}}]}`,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"Ready."}]}}]}`,
			desktop.Point{X: 400, Y: 300}, 2, `{"role":"model"`, `{"parts":[{"functionResponse":{`,
		},
	} {
		turn, err := s.Turn(t.Context(), c.provider, []byte(c.calls))
		if err != nil || turn.Done || turn.Text != "I move.\n" || len(turn.Messages) != c.messages {
			t.Fatalf("%s: %+v, %v", c.provider, turn, err)
		}
		first, err1 := json.Marshal(turn.Messages[0])
		last, err2 := json.Marshal(turn.Messages[c.messages-1])
		if err := errors.Join(err1, err2); err != nil || !strings.HasPrefix(string(first), c.first) || !strings.Contains(string(last), c.third) {
			t.Errorf("%s: %v: %.300s and %.300s", c.provider, err, first, last)
		}
		if p := pointer(t, d); max(p.X-c.at.X, c.at.X-p.X, p.Y-c.at.Y, c.at.Y-p.Y) > 1 {
			t.Errorf("%s moved to %v", c.provider, p)
		}
		if turn, err := s.Turn(t.Context(), c.provider, []byte(c.says)); err != nil || !turn.Done || turn.Text != "Ready.\n" {
			t.Errorf("%s: %+v, %v", c.provider, turn, err)
		}
		for _, answer := range []string{`{"error":{"message":"no credit"}}`, `<p>no credit`, `{"content":[],"output":[],"candidates":[]}`} {
			var invalid *computer.InvalidError
			if _, err := s.Turn(t.Context(), c.provider, []byte(answer)); !errors.As(err, &invalid) || !strings.Contains(err.Error(), answer) {
				t.Errorf("%s takes %s: %v", c.provider, answer, err)
			}
		}
	}
	if _, err := s.Turn(t.Context(), "mistral", []byte(`{"content":[{"type":"tool_use"}]}`)); err == nil {
		t.Error("it knows a provider that there is not")
	}
}
