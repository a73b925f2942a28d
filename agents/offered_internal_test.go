package agents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The log keeps a bounded part of an agent's offers for a session, because the row is written
// with each change.
func TestOfferedIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2<<20)
	options := func(n int, name string) json.RawMessage {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"id":"o%d","name":%q,"currentValue":"a","options":[{"value":"a"}]}`, i, name)
		}
		return json.RawMessage("[" + strings.Join(list, ",") + "]")
	}
	s := &attachedSession{}
	s.applyResult(sessionResult{Modes: json.RawMessage(`{"currentModeId":"m"}`), Config: options(3, "n")})
	s.recordListedChoice(categoryMode, "m")
	large := json.RawMessage(`{"currentModeId":"` + long + `","currentModelId":"` + long + `"}`)
	for range 2 {
		s.applyResult(sessionResult{Modes: large, Models: large, Config: options(1, long)})
		s.recordListedChoice(categoryMode, long)
	}
	if n := len(s.row.Modes) + len(s.row.Config) + len(s.row.Data); n > 1<<20 || len(s.data.Problems) != 3 {
		t.Errorf("%d bytes and the problems %v", n, s.data.Problems)
	}
	if s.data.Mode != "m" || len(configOptionsOf(s.row.Config)) != 3 {
		t.Errorf("what was kept before is lost: mode %.10q, options %s", s.data.Mode, s.row.Config)
	}
	if n := len(configOptionsOf(options(5000, "n"))); n > 1000 {
		t.Errorf("%d of 5000 options are compared with each other", n)
	}
	if raw := capabilitiesOf([]byte(`{"agentCapabilities":{"loadSession":true,"x":"` + long + `"}}`)).raw; len(raw) > 1<<20 {
		t.Errorf("%d bytes of capabilities are kept", len(raw))
	}
}
