//go:build !race

package universal

// The race detector makes these tests ten times slower, and each uses one goroutine only.

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestManyTools: the state bounds the number and size of tool calls that an agent begins
// without ending them.
func TestManyTools(t *testing.T) {
	t.Parallel()
	for name, update := range map[string]string{
		"many":     `{"sessionUpdate":"tool_call","toolCallId":"%d","title":"t"}`,
		"contents": `{"sessionUpdate":"tool_call","toolCallId":"%d","content":[` + strings.Repeat("{},", 1<<13) + `{}]}`,
		"large":    `{"sessionUpdate":"tool_call","toolCallId":"%d","rawInput":{"x":"` + strings.Repeat("y", 1<<20) + `"}}`,
		"one":      `{"sessionUpdate":"tool_call_update","toolCallId":"1","locations":[{"path":"/%d"}]}`,
		"asked":    "",
	} {
		s := NewState("s1")
		ended := 0
		for i := range 3 * maxTools {
			if (name == "large" || name == "contents") && i == maxOpen>>20+2 {
				break
			}
			e := eventlog.Event{Seq: int64(i + 1), Process: "life", Dir: eventlog.Agent, Kind: "session/update", Payload: fmt.Appendf(nil, `{"params":{"update":`+update+`}}`, i)}
			if name == "asked" {
				e.Kind, e.Payload = "session/request_permission", fmt.Appendf(nil, `{"id":%[1]d,"params":{"toolCall":{"toolCallId":"%[1]d"},"options":[]}}`, i)
			}
			for _, u := range s.Apply(e) {
				if u.Type == ItemCompleted {
					ended++
				}
			}
		}
		bytes := 0
		for id, tool := range s.Tools {
			bytes += tool.size(id)
			if len(tool.Places) > maxPlaces {
				t.Errorf("%s: %d files", name, len(tool.Places))
			}
		}
		if len(s.Tools) > maxTools || len(s.Order) != len(s.Tools) || len(s.Asked) > maxAsked || bytes > maxOpen || bytes != s.Open {
			t.Errorf("%s: %d tool calls, %d in order, %d questions, %d bytes counted as %d", name, len(s.Tools), len(s.Order), len(s.Asked), bytes, s.Open)
		}
		if ended == 0 && (name == "many" || name == "large" || name == "contents") {
			t.Errorf("%s: none has ended", name)
		}
		snapshot, err := s.Snapshot()
		if again := Restore(snapshot); err != nil || again == nil || again.Open != s.Open {
			t.Errorf("%s: it is not restored, %v", name, err)
		}
	}
}

// TestLargeQuestions: the size of all open questions together is bounded. An answer makes room.
func TestLargeQuestions(t *testing.T) {
	t.Parallel()
	s := NewState("s1")
	large := strings.Repeat("x", 3<<20)
	types := func(e eventlog.Event) (last string) {
		for _, u := range s.Apply(e) {
			last = u.Type
		}
		return last
	}
	for i := range 5 {
		if got := types(question(i, 2, "execute", large)); got != PermissionAsked {
			t.Fatalf("question %d: %s", i, got)
		}
	}
	if got := types(question(5, 2, "execute", large)); got != Unparsed || len(s.Asked) != 5 {
		t.Errorf("one too many: %s, %d questions", got, len(s.Asked))
	}
	if got := types(question(0, 2, "execute", large)); got != PermissionAsked || len(s.Asked) != 5 {
		t.Errorf("an id that is used again: %s, %d questions", got, len(s.Asked))
	}
	answer := `{"id":0,"result":{"outcome":{"outcome":"selected","optionId":"0-1"}}}`
	if got := types(eventlog.Event{Process: "life", Dir: eventlog.Client, Kind: "response:session/request_permission", Payload: []byte(answer)}); got != PermissionResolved {
		t.Errorf("the answer: %s", got)
	}
	if got := types(question(5, 2, "execute", large)); got != PermissionAsked {
		t.Errorf("after the answer: %s", got)
	}
}

// TestLongTitles: a question about a call that has ended keeps the beginning of its title alone.
func TestLongTitles(t *testing.T) { //nolint:paralleltest // it measures the heap
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc) //nolint:gosec // it fits
	}
	s := NewState("s1")
	apply := func(kind, format string, args ...any) {
		s.Apply(eventlog.Event{Process: "life", Dir: eventlog.Agent, Kind: kind, Payload: fmt.Appendf(nil, format, args...)})
	}
	const questions = 40
	before := heap()
	for i := range questions {
		apply("session/update", `{"params":{"update":{"sessionUpdate":"tool_call","toolCallId":"%d","title":"%s"}}}`, i, strings.Repeat("x", 1<<20))
		apply("session/request_permission", `{"id":%[1]d,"params":{"toolCall":{"toolCallId":"%[1]d"},"options":[]}}`, i)
		apply("session/update", `{"params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"%d","status":"completed"}}}`, i)
	}
	if got := heap() - before; got > questions<<18 || len(s.Asked) != questions || len(s.Tools) != 0 {
		t.Errorf("%d questions and %d calls keep %d bytes", len(s.Asked), len(s.Tools), got)
	}
	runtime.KeepAlive(s)
}

// TestManyOptions: the state holds the first options of a question, the event has all.
func TestManyOptions(t *testing.T) {
	t.Parallel()
	const questions, options = 14, 10_000
	for kind, asked := range map[string]string{"execute": PermissionAsked, "switch_mode": QuestionAsked} {
		s := NewState("s1")
		for i := range questions {
			events := s.Apply(question(i, options, kind, "title"))
			last := events[len(events)-1]
			if end := fmt.Sprintf("n%d\"", options-1); last.Type != asked || !strings.Contains(string(last.Data), end) {
				t.Errorf("question %d: the event %s, want %s with all options", i, last.Type, asked)
			}
		}
		for key, q := range s.Asked {
			if len(q.Kinds) != maxOptions || len(q.Names) != maxOptions || len(q.Options) != maxOptions {
				t.Fatalf("question %s: %d kinds, %d names, %d options, want %d", key, len(q.Kinds), len(q.Names), len(q.Options), maxOptions)
			}
		}
		if snapshot, err := s.Snapshot(); err != nil || len(s.Asked) != questions || len(snapshot) > 100<<10 {
			t.Errorf("%d questions, a snapshot of %d bytes, %v", len(s.Asked), len(snapshot), err)
		}
	}
}

// TestManyParts: small parts of a message count with the memory that they take.
func TestManyParts(t *testing.T) {
	t.Parallel()
	for name, contents := range map[string][]string{
		"json":     {`1`},
		"and text": {`1`, `{"type":"text","text":"t"}`},
	} {
		s := NewState("s1")
		most := 0
		for i := range 3 * maxText / 256 {
			s.Apply(eventlog.Event{
				Seq: int64(i + 1), Process: "life", Dir: eventlog.Agent, Kind: "session/update",
				Payload: fmt.Appendf(nil, `{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":%s}}}`, contents[i%len(contents)]),
			})
			if s.Text != nil {
				most = max(most, len(s.Text.Content))
			}
		}
		if size := most * int(unsafe.Sizeof(Part{})); most == 0 || size > maxText {
			t.Errorf("%s: a message of %d parts, which take more than %d bytes", name, most, size)
		}
	}
}
