package httpapi

import (
	"fmt"
	"strings"
	"testing"
)

// TestComputerTools calls models' computer tools over HTTP. Package computer tests each action.
func TestComputerTools(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{})
	const at = "/v1/desktop/computer/"
	s.get(t, at+"anthropic").problem(t, 409, "desktop_runtime_inactive")
	s.post(t, "/v1/desktop/start", `{}`).want(t, 200)
	s.post(t, at+"mistral", `{}`).problem(t, 400, "invalid_request")
	if p := s.get(t, at+"anthropic?version=1").problem(t, 400, "invalid_request"); p["field"] != "version" || !strings.Contains(fmt.Sprint(p["detail"]), "20251124") {
		t.Errorf("an unknown version: %v", p)
	}
	if p := s.post(t, at+"openai", `{}`).problem(t, 400, "invalid_request"); p["field"] != "action" {
		t.Errorf("a call without an action: %v", p)
	}
	s.post(t, at+"openai", `[`).problem(t, 400, "invalid_request")

	a := s.post(t, at+"openai", `{"call_id":"c","action":{"type":"fly"}}`).want(t, 200)
	if r := a.json(t); r["status"] != "incomplete" || r["call_id"] != "c" || !strings.Contains(a.Header.Get("Deskhand-Problem"), `there is no "fly"`) {
		t.Errorf("an unknown action: %v %s", a.Header, a.body[:100])
	}
	if a := s.post(t, at+"openai", `{"call_id":"c","action":{"type":"screenshot"}}`).want(t, 200); a.Header.Get("Deskhand-Problem") != "" || a.json(t)["status"] != nil {
		t.Errorf("a screenshot: %v", a.Header)
	}
	// The tool starts programs, so a token for control is not enough.
	_, control := s.token(t, `{"scope":"control"}`)
	_, agent := s.token(t, `{"scope":"agent","desktop":"main"}`)
	for token, status := range map[string]int{control: 403, agent: 200} {
		a := s.do(t, call{path: at + "anthropic", body: `{"input":{"action":"cursor_position"}}`, header: map[string]string{"Authorization": "Bearer " + token}})
		if a.StatusCode != status {
			t.Errorf("with %.4s: %d %s", token, a.StatusCode, a.body)
		}
	}
}
