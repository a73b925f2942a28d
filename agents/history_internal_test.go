package agents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestHistoryOfLargeEvents: the history of a session has its newest messages, however large the
// events before them are.
func TestHistoryOfLargeEvents(t *testing.T) {
	t.Parallel()
	log, err := eventlog.Open(t.Context(), eventlog.Config{Synchronous: eventlog.Normal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	large := strings.Repeat("x", 3<<19)
	output := fmt.Sprintf(`{"params":{"update":{"sessionUpdate":"tool_call_update","rawOutput":%q}}}`, large)
	for _, text := range []string{"the first", "the second", "the newest"} {
		err := log.Commit(t.Context(), func(tx *eventlog.Tx) error {
			add := func(dir eventlog.Direction, kind, payload string) error {
				_, err := tx.Append(eventlog.Event{Stream: SessionStream("s"), Dir: dir, Kind: kind, Payload: []byte(payload)})
				return err
			}
			if err := add(eventlog.Client, "session/prompt", `{"params":{"prompt":[{"type":"text","text":"`+text+`"},{"type":"image","data":"`+large+`"}]}}`); err != nil {
				return err
			}
			for range 40 {
				if err := add(eventlog.Agent, "session/update", output); err != nil {
					return err
				}
			}
			for _, dir := range []eventlog.Direction{eventlog.Agent, eventlog.Daemon} { // not of clients
				if err := add(dir, "session/prompt", `{"params":{"prompt":[{"type":"text","text":"forged"}]}}`); err != nil {
					return err
				}
			}
			return add(eventlog.Agent, "session/update", `{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"after `+text+`"}}}}`)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := historyOf(t.Context(), log, "s")
	want := historyBegin + "User: the first\n[image]\n\nAssistant: after the first\n\nUser: the second\n[image]\n\nAssistant: after the second\n\n" +
		"User: the newest\n[image]\n\nAssistant: after the newest" + historyEnd
	if err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if got := transcript(nil, true); !strings.Contains(got, historyCut) {
		t.Errorf("a history without its beginning is %q", got)
	}
}
