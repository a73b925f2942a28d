package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestMeanwhile: after a person's control, the next answer of a list of actions and of a tool
// has what the person did, once.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	s.put(t, "/v1/secrets/BANK", `{"value":"hunter2"}`).want(t, 204)
	_, agent := s.token(t, `{"scope":"agent","name":"bot"}`)
	bot := map[string]string{"Authorization": "Bearer " + agent}
	jane := map[string]string{"Deskhand-Actor": "Jane", "Deskhand-Typing": "secret"}
	session, err := s.mcpClient(t, "", agent, "model")
	if err != nil {
		t.Fatal(err)
	}
	list := call{path: mainPath + "/actions", body: `{"actions":[{"type":"move","x":1,"y":1}],"settle":{"ms":0},"observe":{"screenshot":{"scale":0.5}}}`, header: bot}
	meanwhile := func() string {
		t.Helper()
		var got struct {
			Observation struct{ Meanwhile json.RawMessage }
		}
		a := s.do(t, list).want(t, 200)
		if err := json.Unmarshal(a.body, &got); err != nil {
			t.Fatal(err)
		}
		return string(got.Observation.Meanwhile)
	}
	if got := meanwhile(); got != "" {
		t.Errorf("the first answer: %s", got)
	}
	if text, _, failed := callTool(t, session, "click", map[string]any{"coordinate": []int{1, 1}}); failed || strings.Contains(text, "While") {
		t.Errorf("the first answer of a tool: %s", text)
	}
	person := func(path, body string) {
		t.Helper()
		s.do(t, call{method: "POST", path: mainPath + path, body: body, header: jane}).want(t, 200)
	}
	person("/control/take", "{}")
	person("/mouse/click", `{"x":100,"y":200}`)
	person("/keyboard/type", `{"text":"hunter2"}`)
	person("/keyboard/type", `{"secret":"BANK"}`)
	s.do(t, list).problem(t, 409, "control_held")
	if text, _, failed := callTool(t, session, "move", map[string]any{"coordinate": []int{1, 1}}); !failed || strings.Contains(text, "While") {
		t.Errorf("a tool during control: %s", text)
	}
	person("/control/release", "")
	if got := meanwhile(); got != `[{"by":"Jane","did":"click","at":[50,100]},{"by":"Jane","did":"typed","length":7}]` {
		t.Errorf("after control: %s", got)
	}
	if got := meanwhile(); got != "" {
		t.Errorf("the second answer after control: %s", got)
	}
	if text, _, failed := callTool(t, session, "move", map[string]any{"coordinate": []int{1, 1}}); failed || strings.Contains(text, "While") {
		t.Errorf("the actor was told before: %s", text)
	}
	person("/control/take", "{}")
	person("/mouse/click", `{"x":100,"y":200}`)
	person("/control/release", "")
	text, _, failed := callTool(t, session, "key", map[string]any{"text": "a"})
	if failed || !strings.Contains(text, "While you did not have control: Jane clicked at [100, 200].") || strings.Contains(text, "hunter2") {
		t.Errorf("a tool after control: %s", text)
	}
}
