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

// TestObservedTextsAreBounded: options have a bounded number of choices, and short texts.
func TestObservedTextsAreBounded(t *testing.T) {
	t.Parallel()
	const choice = `{"value":%[1]q,"modelId":%[1]q,"name":%[2]q,"description":%[2]q}`
	long := strings.Repeat("x", 2<<10)
	all := []string{fmt.Sprintf(choice, long, "left out")}
	for i := range 2000 {
		all = append(all, fmt.Sprintf(choice, fmt.Sprint(i), "n"))
	}
	all[1] = fmt.Sprintf(choice, "0", long)
	choices := "[" + strings.Join(all, ",") + "]"
	const option = `{"id":%[1]q,"name":%[2]q,"category":%[1]q,"currentValue":"0","options":%[3]s}`
	for name, answer := range map[string]string{
		"options": `{"configOptions":[` + fmt.Sprintf(option, "model", long, choices) + "," + fmt.Sprintf(option, long, "left out", `[{"value":"0"}]`) + `]}`,
		"groups":  `{"configOptions":[` + fmt.Sprintf(option, "model", long, `[{"group":"g","options":`+choices+`}]`) + `]}`,
		"models":  `{"models":{"currentModelId":"0","availableModels":` + choices + `}}`,
	} {
		options := sessionOptions([]byte(answer))
		if len(options) != 1 || len(options[0].Choices) != maxChoices || len(options[0].Name) > maxText {
			t.Errorf("%s: %d options are kept: %.100v", name, len(options), options)
			continue
		}
		if c := options[0].Choices[0]; c.Value != "0" || len(c.Name) != maxText || len(c.Description) != maxText {
			t.Errorf("%s: the first choice has a value of %d bytes, a name of %d and a description of %d", name, len(c.Value), len(c.Name), len(c.Description))
		}
	}
	r := newRegistry(t, Config{})
	r.Observe("claude", "initialize", fmt.Appendf(nil, `{"agentInfo":{"version":%q},"agentCapabilities":{}}`, long))
	if v := r.ObservedVersion("claude"); len(v) != maxText {
		t.Errorf("the version has %d bytes", len(v))
	}
}
