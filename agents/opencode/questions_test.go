//go:build !race

package opencode_test

// The race detector makes these tests of large logs several times slower.

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// mostAsked is how many bytes all open questions may have.
const mostAsked = 8 << 20

// TestQuestionsAboutALargeCall: what small questions repeat of a tool call is bounded, in each event
// and in all open questions. The transcript's size has all of it.
func TestQuestionsAboutALargeCall(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		call string
		most int // bytes of an event
	}{
		"a large input":   {`"kind":"execute","rawInput":{"command":"` + strings.Repeat("<", 1000<<10) + `"}`, 64 << 10},
		"a large change":  {`"kind":"edit","content":[{"type":"diff","path":"/a","oldText":"","newText":"` + strings.Repeat("<", 3<<20) + `"}]`, 64 << 10},
		"a large plan":    {`"kind":"switch_mode","content":[{"type":"content","content":{"type":"text","text":"` + strings.Repeat("<", 3<<20) + `"}}]`, 64 << 10},
		"a medium change": {`"kind":"edit","content":[{"type":"diff","path":"/a","oldText":"","newText":"` + strings.Repeat("<", 200<<10) + `"}]`, mostAsked},
	} {
		s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
		s.prompt(1, `{"type":"text","text":"x"}`)
		s.add(eventlog.Agent, "session/update", `{"params":{"update":{"sessionUpdate":"tool_call","toolCallId":"a","title":"t",`+one.call+`}}}`)
		s.apply(tr)
		before, told := tr.Bytes(), 0
		for i := range 20 {
			s.add(eventlog.Agent, "session/request_permission", fmt.Sprintf(`{"id":%d,"params":{"toolCall":{"toolCallId":"a"},"options":[]}}`, i))
			for _, event := range tr.Apply(s.log[0]) {
				text := line(t, event.Properties)
				if told++; len(text) > one.most {
					t.Errorf("%s: the event %s has %d bytes", name, event.Type, len(text))
				}
				if one.most < mostAsked && !strings.Contains(text, "The session's log has it.") {
					t.Errorf("%s: the event %s does not say what is missing: %.300s", name, event.Type, text)
				}
			}
			s.log = nil
		}
		permissions, questions := tr.Open()
		open := len(line(t, permissions)) + len(line(t, questions))
		if told == 0 || open > mostAsked || tr.Bytes()-before < open-1<<10 {
			t.Errorf("%s: %d events, the open questions have %d bytes and count %d", name, told, open, tr.Bytes()-before)
		}
	}
}

// TestFormMessage: the questions of a form do not repeat its message.
func TestFormMessage(t *testing.T) {
	t.Parallel()
	s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
	properties := map[string]object{"a": {"type": "string"}}
	for i := range 50 {
		properties[fmt.Sprint("b", i)] = object{"type": "string", "title": "Size"}
	}
	params, err := json.Marshal(object{"message": strings.Repeat("x", 100<<10), "requestedSchema": object{"properties": properties}})
	if err != nil {
		t.Fatal(err)
	}
	s.add(eventlog.Agent, "elicitation/create", `{"id":1,"params":`+string(params)+`}`)
	s.apply(tr)
	_, open := tr.Open()
	if len(open) != 1 || len(line(t, open)) > 128<<10 {
		t.Fatalf("%d questions with %d bytes", len(open), len(line(t, open)))
	}
	all := open[0].Questions
	if len(all) != 51 || len(all[0].Question) != 100<<10 || all[1].Question != "Size" {
		t.Errorf("%d questions, the second is %.100q", len(all), all[1].Question)
	}
}

// TestBytes: the size of a transcript has everything that the agent sent.
func TestBytes(t *testing.T) {
	t.Parallel()
	list := func(format string, n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(format, fmt.Sprint(i, strings.Repeat("x", 1000)))
		}
		return strings.Join(all, ",")
	}
	for name, update := range map[string]string{
		"a plan":          `"sessionUpdate":"plan","entries":[` + list(`{"content":"%s"}`, 100) + `]`,
		"commands":        `"sessionUpdate":"available_commands_update","availableCommands":[` + list(`{"name":"%s"}`, 100) + `]`,
		"places":          `"sessionUpdate":"tool_call","toolCallId":"a","locations":[` + list(`{"path":"/%s"}`, 100) + `]`,
		"types":           `"sessionUpdate":"tool_call","toolCallId":"a","content":[` + list(`{"type":"%s"}`, 100) + `]`,
		"types of blocks": `"sessionUpdate":"tool_call","toolCallId":"a","content":[` + list(`{"type":"content","content":{"type":"%s"}}`, 100) + `]`,
		"files":           `"sessionUpdate":"tool_call","toolCallId":"a","status":"completed","content":[` + list(`{"type":"diff","path":"/%s","newText":""}`, 100) + `]`,
	} {
		s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
		s.prompt(1, `{"type":"text","text":"x"}`)
		s.add(eventlog.Agent, "session/update", `{"params":{"update":{`+update+`}}}`)
		least := 100_000
		if strings.HasPrefix(name, "type") {
			least = 200_000 // with the contents
		}
		if name == "places" || strings.HasPrefix(name, "type") { // they are kept until the turn ends
			s.apply(tr)
		} else {
			s.end(1, "end_turn")
			s.apply(tr)
			tr.Trim()
		}
		if tr.Bytes() < least {
			t.Errorf("%s: %d bytes", name, tr.Bytes())
		}
	}
}
