package registry

import (
	"fmt"
	"strings"
	"testing"
)

// TestObserveIsBounded: the recorded part of an agent's answers is bounded.
func TestObserveIsBounded(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, Config{})
	option := func(i int, name string) string {
		return fmt.Sprintf(`{"id":"o%d","name":%q,"category":"c%d","currentValue":"a","options":[{"value":"a","name":"A"}]}`, i, name, i)
	}
	var many []string
	for i := range 2000 {
		many = append(many, option(i, "n"))
	}
	before, err := r.Agent("codex")
	if err != nil {
		t.Fatal(err)
	}
	r.Observe("codex", "session/new", []byte(`{"configOptions":[`+strings.Join(many, ",")+`]}`))
	after, _ := r.Agent("codex")
	if n := len(after.Options) - len(before.Options); n < 1 || n > 100 {
		t.Errorf("%d of 2000 options are kept", n)
	}
	long := strings.Repeat("x", 2<<20)
	r.Observe("claude", "initialize", fmt.Appendf(nil, `{"agentInfo":{"version":%q},"agentCapabilities":{}}`, long))
	r.Observe("claude", "session/new", []byte(`{"configOptions":[`+option(1, long)+`]}`))
	if o := r.observed["claude"]; len(o.version) > 0 || len(o.options) > 0 {
		t.Errorf("%d bytes of a version and %d options are kept of answers of 2 MiB", len(o.version), len(o.options))
	}
}
