package universal

import (
	"fmt"
	"strings"
	"testing"
)

// question returns an agent's question with n options.
func question(id, n int, kind, title string) Entry {
	options := make([]string, n)
	for i := range options {
		options[i] = fmt.Sprintf(`{"optionId":"%d-%d","name":"n%d","kind":"allow_once"}`, id, i, i)
	}
	return Entry{
		Seq: int64(id + 1), Process: "life", Dir: Agent, Kind: "session/request_permission",
		Payload: fmt.Appendf(nil, `{"id":%d,"params":{"toolCall":{"toolCallId":"t","kind":%q,"title":%q},"options":[%s]}}`, id, kind, title, strings.Join(options, ",")),
	}
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
			if len(q.Kinds) != mostOptions || len(q.Names) != mostOptions || len(q.Options) != mostOptions {
				t.Fatalf("question %s: %d kinds, %d names, %d options, want %d", key, len(q.Kinds), len(q.Names), len(q.Options), mostOptions)
			}
		}
		if snapshot, err := s.Snapshot(); err != nil || len(s.Asked) != questions || len(snapshot) > 100<<10 {
			t.Errorf("%d questions, a snapshot of %d bytes, %v", len(s.Asked), len(snapshot), err)
		}
	}
}

// TestLargeQuestions: open questions have a bound together. An answer makes room.
func TestLargeQuestions(t *testing.T) {
	t.Parallel()
	s := NewState("s1")
	large := strings.Repeat("x", 3<<20)
	types := func(e Entry) (last string) {
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
	if got := types(Entry{Process: "life", Dir: Client, Kind: "response:session/request_permission", Payload: []byte(answer)}); got != PermissionResolved {
		t.Errorf("the answer: %s", got)
	}
	if got := types(question(5, 2, "execute", large)); got != PermissionAsked {
		t.Errorf("after the answer: %s", got)
	}
}
