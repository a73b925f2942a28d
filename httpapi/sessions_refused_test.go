package httpapi

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/deskhand/deskhand/internal/configfile"
)

// TestRefusedSessionLeavesNothing: a session that cannot be is not in the list,
// and has not changed the skills of its folder.
func TestRefusedSessionLeavesNothing(t *testing.T) {
	t.Parallel()
	s, dir := serve(t, Config{}), t.TempDir()
	file := configfile.Path(dir, "skills")
	create := func(id, agent, more string) answer {
		return s.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":%q,"directory":%q%s}`, agent, dir, more))
	}
	const skills = `,"skills":{"sources":[{"type":"local","source":"/other"}]}`
	create("new", "nope", skills).problem(t, 400, "unsupported_agent")
	create("new", "mock", skills+`,"desktop":"nope"`).problem(t, 404, "not_found")
	if p := s.post(t, "/v1/sessions/new", `{"agent":"mock","directory":"."}`).problem(t, 400, "invalid_request"); p["field"] != "directory" {
		t.Errorf("a relative directory: %v", p)
	}
	if _, err := os.Stat(file); err == nil {
		t.Errorf("%s was made", file)
	}
	create("taken", "mock", `,"skills":{"sources":[]}`).want(t, 200)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	create("taken", "mock", skills).problem(t, 409, "session_already_exists")
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the skills were %s and are %s, %v", before, after, err)
	}
	var list struct{ Sessions []sessionInfo }
	decode(t, s.get(t, "/v1/sessions").want(t, 200).body, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].ID != "taken" {
		t.Errorf("sessions: %+v", list.Sessions)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	create("new", "mock", skills).problem(t, 400, "invalid_request")
}

// TestSessionTakesItsSkillsAlong: what a session brought leaves with it, unless
// somebody has changed it.
func TestSessionTakesItsSkillsAlong(t *testing.T) {
	t.Parallel()
	s, dir := serve(t, Config{}), t.TempDir()
	file := configfile.Path(dir, "skills")
	var store configfile.Store
	if err := store.Put(t.Context(), file, "mine", json.RawMessage(`{"sources":[]}`)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		body := fmt.Sprintf(`{"agent":"mock","directory":%q,"skills":{"sources":[{"type":"local","source":"/a<b>é"}]}}`, dir)
		s.post(t, "/v1/sessions/"+id, body).want(t, 200)
	}
	if err := store.Put(t.Context(), file, "session-b", json.RawMessage(`{"sources":[]}`)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		s.post(t, "/v1/sessions/"+id+"/terminate", "").want(t, 204)
	}
	entries, err := store.Entries(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"mine": true, "session-a": false, "session-b": true, "session-c": true} {
		if _, ok := entries[name]; ok != want {
			t.Errorf("%s: %v, want %v", name, ok, want)
		}
	}
}
