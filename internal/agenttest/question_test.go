package agenttest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// testQuestion has Claude ask the user by its tool, and wants the answer to reach the model.
func testQuestion(t *testing.T, r *rig) {
	t.Helper()
	r.post("/v1/sessions/asks", map[string]any{"agent": r.name, "directory": r.work})
	r.post("/v1/sessions/asks/messages", map[string]any{"message": "ask\n" + call("AskUserQuestion", map[string]any{"questions": []any{
		map[string]any{"question": "Which colour?", "header": "Colour", "multiSelect": false, "options": []any{
			map[string]any{"label": "Red", "description": "as fire"}, map[string]any{"label": "Blue", "description": "as water"},
		}},
	}}) + "\n@say Result: {result}"})
	type event struct {
		Type string
		Data struct {
			ID       string `json:"question_id"`
			Prompt   string
			Options  []string
			Response string
			Status   string
			Item     struct {
				Kind    string
				Content []struct{ Text string }
			}
		}
	}
	events := func() (page struct{ Events []event }) {
		t.Helper()
		res, err := http.Get(r.url + "/v1/sessions/asks/events")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if raw, err := io.ReadAll(res.Body); err != nil || json.Unmarshal(raw, &page) != nil {
			t.Fatalf("%s, %v", raw, err)
		}
		return page
	}
	find := func(kind string) (found event) {
		t.Helper()
		eventually(t, "the event "+kind, func() bool {
			for _, e := range events().Events {
				if e.Type == kind {
					found = e
				}
			}
			return found.Type != ""
		})
		return found
	}
	asked := find("question.requested").Data
	if asked.Prompt != "Which colour?" || strings.Join(asked.Options, " ") != "Red Blue" {
		t.Errorf("it asks %+v", asked)
	}
	r.post("/v1/sessions/asks/questions/"+asked.ID+"/reply", map[string]any{"answers": [][]string{{"Blue"}}})
	if answered := find("question.resolved").Data; answered.Status != "answered" || answered.Response != "Blue" {
		t.Errorf("the answer is %+v", answered)
	}
	find("turn.ended")
	var said strings.Builder
	for _, e := range events().Events {
		if e.Type == "item.completed" && e.Data.Item.Kind == "message" {
			for _, c := range e.Data.Item.Content {
				said.WriteString(c.Text)
			}
		}
	}
	if _, result, _ := strings.Cut(said.String(), "Result:"); !strings.Contains(result, "Blue") {
		t.Errorf("it said %q%s", said.String(), r.offers())
	}
}
