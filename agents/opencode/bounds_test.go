//go:build !race

package opencode_test

// The race detector makes these tests of large logs several times slower.

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencode"
)

// most is the number of bytes that a transcript of TestBounds may hold: of messages, changed files
// and questions, with a part that is about to be forgotten.
const most = (2 + 4 + 8 + 1) << 20

// TestBounds: whatever an agent sends in one turn, the transcript keeps the newest of it, and
// its memory is bounded.
func TestBounds(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const large = 512 << 10
	text := func(n int) string { return strings.Repeat("x", n) }
	call := func(id, more string) string {
		return `{"params":{"update":{"sessionUpdate":"tool_call","toolCallId":"` + id + `","title":"t","kind":"edit",` + more + `}}}`
	}
	content := func(old, new, path string) string {
		return `"status":"completed","content":[{"type":"diff","path":"` + path + `","oldText":` + old + `,"newText":"` + new + `"}]`
	}
	for name, message := range map[string]func(i int) (kind, payload string){
		"text": func(int) (string, string) {
			return "session/update", `{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text(large) + `"}}}}`
		},
		"images": func(int) (string, string) {
			return "session/update", `{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"image","mimeType":"image/png","data":"` + text(large) + `"}}}}`
		},
		"resources": func(i int) (string, string) {
			return "session/update", call(fmt.Sprint(i), `"content":[{"type":"content","content":{"type":"resource","resource":{"uri":"a","blob":"`+text(large)+`"}}}]`)
		},
		"a growing file": func(i int) (string, string) {
			return "session/update", call(fmt.Sprint(i), content(`""`, text(large), "/a"))
		},
		"files": func(i int) (string, string) {
			return "session/update", call(fmt.Sprint(i), content(`null`, text(large), fmt.Sprint("/", i)))
		},
		"ids": func(i int) (string, string) {
			return "session/update", call(fmt.Sprint(i, text(large)), content(`null`, "", "/a"))
		},
		"paths": func(i int) (string, string) {
			return "session/update", call(fmt.Sprint(i), content(`null`, "", fmt.Sprint("/", i, text(large))))
		},
		"titles": func(i int) (string, string) {
			return "session/update", call(fmt.Sprint(i), `"rawInput":{"a":"`+text(large/2)+`"},"rawOutput":"`+text(large/2)+`"`)
		},
		"long titles": func(i int) (string, string) {
			return "session/update", call(fmt.Sprint(i), `"title":"`+text(4*large)+`"`)
		},
		"questions": func(i int) (string, string) {
			return "session/request_permission", fmt.Sprintf(`{"id":%d,"params":{"toolCall":{"title":"%s"},"options":[{"optionId":"a","name":"a","kind":"allow_once"}]}}`, i, text(large))
		},
		"metadata of contents": func(i int) (string, string) {
			chosen := `{"agent":"` + text(large) + `","modelID":"` + text(large) + `","system":"` + text(large) + `"}`
			return "session/update", call(fmt.Sprint(i), `"content":[{"type":"content","content":{"type":"text","_meta":{"deskhand/opencode":`+chosen+`}}}]`)
		},
		"modes": func(int) (string, string) {
			return "session/update", `{"params":{"update":{"sessionUpdate":"current_mode_update","currentModeId":"` + text(large) + `"}}}`
		},
	} {
		s := script{at: time.UnixMilli(1_700_000_000_000)}
		tr := opencode.NewTranscript(opencode.Config{Session: "s1", Agent: "agent", MaxBytes: 2 << 20})
		s.prompt(1, `{"type":"text","text":"first"}`)
		s.apply(tr)
		before := heap()
		for i := range 40 {
			kind, payload := message(i)
			s.add(eventlog.Agent, kind, payload)
			s.apply(tr)
		}
		if took := heap() - before; took > 2*most || tr.Bytes() > most {
			t.Errorf("%s: the transcript takes %d bytes and says %d", name, took, tr.Bytes())
		}
		s.say("the last words")
		s.end(1, "end_turn")
		s.apply(tr)
		all := tr.Messages()
		encoded := line(t, all)
		if len(encoded) > 2*most || !strings.Contains(encoded, "the last words") || tr.Busy() {
			t.Errorf("%s: the messages have %d bytes, and the last ones are %.300s", name, len(encoded), encoded[max(0, len(encoded)-300):])
		}
		// The messages of earlier turns are forgotten first.
		for turn := 2; turn < 4; turn++ {
			s.prompt(turn, `{"type":"text","text":"again"}`)
			for range 5 {
				s.say(text(large))
			}
			s.end(turn, "end_turn")
			s.apply(tr)
		}
		if all = tr.Messages(); len(all) < 2 || strings.Contains(line(t, all), "first") || tr.Bytes() > most {
			t.Errorf("%s: %d messages of %d bytes after two more turns", name, len(all), tr.Bytes())
		}
	}
}

// heap returns how much memory is in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) //nolint:gosec // it fits
}

// TestSmallUpdates: an agent cannot have a large tool call told again and again by small messages.
// The end of the call has all of them.
func TestSmallUpdates(t *testing.T) {
	t.Parallel()
	s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
	update := func(more string) {
		s.add(eventlog.Agent, "session/update", `{"params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"1"`+more+`}}}`)
	}
	s.prompt(1, `{"type":"text","text":"x"}`)
	update(`,"kind":"execute","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}}]`)
	s.apply(tr)
	for range 100 {
		update(`,"title":"new"`)
		update(`,"status":"in_progress"`)
	}
	if got := s.apply(tr); len(got) != 0 {
		t.Errorf("%d events", len(got))
	}
	update(`,"status":"completed"`)
	got := s.apply(tr)
	parts := tr.Messages()[1].Parts
	if state := parts[len(parts)-1].State; len(got) != 1 || state.Status != "completed" || *state.Title != "new" {
		t.Errorf("%v, %q, %q", got, state.Status, *state.Title)
	}
	for range 100 {
		update(`,"status":"failed"`)
		update(`,"status":"completed"`)
	}
	if got := s.apply(tr); len(got) != 0 {
		t.Errorf("%d events after the end", len(got))
	}
}

// TestForgottenCall: a tool call that runs ends for the clients before it is forgotten.
func TestForgottenCall(t *testing.T) {
	t.Parallel()
	s := script{at: time.UnixMilli(1_700_000_000_000)}
	tr := opencode.NewTranscript(opencode.Config{Session: "s1", Agent: "agent", MaxBytes: 64 << 10})
	s.prompt(1, `{"type":"text","text":"x"}`)
	s.add(eventlog.Agent, "session/update", `{"params":{"update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"old","status":"in_progress"}}}`)
	s.apply(tr)
	var told []string
	for range 3 {
		s.say(strings.Repeat("x", 40<<10))
		s.add(eventlog.Agent, "session/update", `{"params":{"update":{"sessionUpdate":"tool_call","toolCallId":"2","title":"new","status":"completed"}}}`)
		for _, e := range s.log {
			for _, event := range tr.Apply(e) {
				told = append(told, line(t, event.Properties))
			}
		}
		s.log = nil
	}
	if all := strings.Join(told, "\n"); !strings.Contains(all, `"callID":"1","tool":"old","state":{"status":"completed"`) {
		t.Errorf("events %.2000s", all)
	}
	if tr.Bytes() > 128<<10 {
		t.Errorf("%d bytes", tr.Bytes())
	}
}

// TestForgery: an agent cannot speak for the user, for the host or for a client: the messages that
// have other senders count from them alone.
func TestForgery(t *testing.T) {
	t.Parallel()
	s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
	s.prompt(1, `{"type":"text","text":"x"}`)
	s.add(eventlog.Agent, "session/request_permission", `{"id":7,"params":{"toolCall":{"toolCallId":"1","title":"t"},"options":[{"optionId":"a","name":"a","kind":"allow_once"}]}}`)
	s.apply(tr)
	before := line(t, tr.Messages())
	for kind, members := range map[string]object{
		"session/prompt":                      {"id": 9, "params": object{"prompt": []object{{"type": "text", "text": "forged"}}}},
		"session/new":                         {"params": object{"cwd": "/forged"}},
		"session/set_mode":                    {"params": object{"modeId": "forged"}},
		"session/ended":                       {},
		"_adapter/agent_exited":               {},
		opencode.KindShell:                    {"params": object{"id": "sh", "command": "forged"}},
		"response:session/request_permission": {"id": 7, "result": object{"outcome": object{"outcome": "selected", "optionId": "a"}}},
	} {
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		s.add(eventlog.Agent, kind, string(text))
		if got := s.apply(tr); len(got) != 0 {
			t.Errorf("%s: events %v", kind, got)
		}
	}
	permissions, _ := tr.Open()
	if got := line(t, tr.Messages()); got != before || !tr.Busy() || len(permissions) != 1 {
		t.Errorf("%d permissions, messages %s", len(permissions), got)
	}
}

type object = map[string]any
