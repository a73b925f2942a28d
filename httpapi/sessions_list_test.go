package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// listed describes a session in a page of the list.
type listed struct {
	ID           string `json:"sessionId"`
	State        string
	WaitingSince int64
	Desktop      string
	Turns        int
	Title        string
	AgentMode    string
	Model        string
}

// list returns a page of the list of sessions, and the cursor of the next page.
func (s *testServer) list(t *testing.T, query string) (ids []string, all []listed, next string) {
	t.Helper()
	var page struct {
		Sessions []listed
		Next     string
	}
	decode(t, s.do(t, call{path: "/v1/sessions?" + query}).want(t, 200).body, &page)
	for _, one := range page.Sessions {
		ids = append(ids, one.ID)
	}
	return ids, page.Sessions, page.Next
}

// TestSessionList lists sessions by state, in pages, and those that wait for an answer first.
func TestSessionList(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	for _, id := range []string{"one", "two", "three", "four", "five"} {
		s.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":"mock","directory":%q}`, dir)).want(t, 200)
	}
	s.turn(t, "one", "\n  first line  \nsecond line")
	s.turn(t, "one", "another")
	asked := func(id string) string {
		t.Helper()
		s.message(t, id, "permission")
		got := s.sse(t, call{path: "/v1/sessions/" + id + "/events/sse"}, isType("permission.requested"))
		return got[len(got)-1].Data.Permission
	}
	begun := time.Now().UnixMilli()
	four, two := asked("four"), asked("two")
	s.post(t, "/v1/sessions/three/terminate", "").want(t, http.StatusNoContent)

	ids, all, _ := s.list(t, "")
	if !slices.Equal(ids, []string{"one", "two", "three", "four", "five"}) {
		t.Errorf("without a query: %v", ids)
	}
	if one := all[0]; one.Title != "first line" || one.Turns != 2 || one.State != "idle" || one.WaitingSince != 0 {
		t.Errorf("one = %+v", one)
	}
	if four := all[3]; four.State != "waiting" || four.WaitingSince < begun || four.WaitingSince > all[1].WaitingSince {
		t.Errorf("four = %+v, two = %+v", four, all[1])
	}
	for query, want := range map[string][]string{
		"order=newest":                    {"five", "four", "three", "two", "one"},
		"order=waiting":                   {"four", "two", "five", "three", "one"},
		"order=waiting&state=idle,ended":  {"five", "three", "one"},
		"order=waiting&state=waiting":     {"four", "two"},
		"state=waiting,ended":             {"two", "three", "four"},
		"agent=mock&state=idle&limit=1":   {"one"},
		"agent=other":                     nil,
		"order=waiting&limit=2":           {"four", "two", "five", "three"},
		"state=waiting&order=newest":      {"four", "two"},
		"state=running&order=waiting":     nil,
		"state=failed,ended&order=oldest": {"three"},
	} {
		if ids, _, _ := s.list(t, query); !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", query, ids, want)
		}
	}
	var paged []string
	for next, more := "", true; more; more = next != "" {
		var ids []string
		ids, _, next = s.list(t, "order=waiting&limit=2&cursor="+next)
		paged = append(paged, ids...)
	}
	if want := []string{"four", "two", "five", "three", "one"}; !slices.Equal(paged, want) {
		t.Errorf("in pages: %v, want %v", paged, want)
	}
	s.do(t, call{path: "/v1/sessions?cursor=x"}).problem(t, 400, "invalid_request")
	s.do(t, call{path: "/v1/sessions?state=tired"}).problem(t, 400, "invalid_request")

	testOpenPermissions(t, s, four, two)
}

// testOpenPermissions lists the requests of the sessions four and two, and answers one by the
// agent's own option.
func testOpenPermissions(t *testing.T, s *testServer, four, two string) {
	t.Helper()
	open := func(query string) (ids []string, options []string) {
		t.Helper()
		var list struct {
			Permissions []struct {
				ID      string
				Session string `json:"sessionId"`
				AskedAt int64
				Tool    json.RawMessage `json:"toolCall"`
				Options []struct {
					ID string `json:"optionId"`
				}
			}
		}
		decode(t, s.do(t, call{path: "/v1/permissions" + query}).want(t, 200).body, &list)
		for _, p := range list.Permissions {
			if ids = append(ids, p.ID); p.AskedAt == 0 || !strings.Contains(string(p.Tool), "toolCallId") || p.Session == "" {
				t.Errorf("request %+v", p)
			}
			for _, o := range p.Options {
				options = append(options, o.ID)
			}
		}
		return ids, options
	}
	if ids, _ := open(""); !slices.Equal(ids, []string{four, two}) {
		t.Errorf("open requests %v, want %s and %s", ids, four, two)
	}
	ids, options := open("?session=two")
	if !slices.Equal(ids, []string{two}) || len(options) != 3 {
		t.Fatalf("open requests of two: %v with %v", ids, options)
	}
	path := "/v1/sessions/two/permissions/" + two + "/reply"
	for _, bad := range []string{`{}`, `{"option":"x"}`, fmt.Sprintf(`{"reply":"once","option":%q}`, options[0])} {
		s.post(t, path, bad).problem(t, 400, "invalid_request")
	}
	s.post(t, path, fmt.Sprintf(`{"option":%q}`, options[0])).want(t, http.StatusNoContent)
	s.sse(t, call{path: "/v1/sessions/two/events/sse"}, isType("turn.ended"))
	if _, all, _ := s.list(t, "state=idle&order=newest"); all[1].ID != "two" || all[1].WaitingSince != 0 {
		t.Errorf("after the answer: %+v", all)
	}
	// A cancelled turn has no open request.
	s.post(t, "/v1/sessions/four/cancel", "").want(t, http.StatusNoContent)
	s.sse(t, call{path: "/v1/sessions/four/events/sse"}, isType("turn.ended"))
	if ids, _ := open(""); len(ids) != 0 {
		t.Errorf("open requests %v, want none", ids)
	}
}

// TestSessionChanges cancels a turn, and changes mode, model, thought level and title.
func TestSessionChanges(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	s.post(t, "/v1/sessions/mine", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	s.post(t, "/v1/sessions/mine/cancel", "").want(t, http.StatusNoContent) // there is no turn
	s.message(t, "mine", "slow")
	s.sse(t, call{path: "/v1/sessions/mine/events/sse"}, isType("item.delta"))
	s.post(t, "/v1/sessions/mine/cancel", "").want(t, http.StatusNoContent)
	s.sse(t, call{path: "/v1/sessions/mine/events/sse"}, isType("turn.ended"))
	if _, all, _ := s.list(t, ""); all[0].State != "idle" || all[0].Title != "slow" {
		t.Errorf("after the cancellation: %+v", all[0])
	}

	change := func(body string) answer {
		t.Helper()
		return s.do(t, call{method: http.MethodPatch, path: "/v1/sessions/mine", body: body, kind: "application/json"})
	}
	change(`{"agentMode":"plan","model":"mock-fast","variant":"high","title":"Mine"}`).want(t, http.StatusNoContent)
	var one struct {
		listed
		Modes   json.RawMessage
		Models  json.RawMessage
		Options []struct {
			ID      string
			Current any `json:"currentValue"`
		} `json:"configOptions"`
	}
	decode(t, s.do(t, call{path: "/v1/sessions/mine"}).want(t, 200).body, &one)
	if one.AgentMode != "plan" || one.Model != "mock-fast" || one.Title != "Mine" || one.Turns != 1 || len(one.Options) == 0 && one.Modes == nil {
		t.Errorf("after the change: %+v", one)
	}
	for body, field := range map[string]string{
		`{"agentMode":"none"}`: "agentMode", `{"model":"none"}`: "model", `{"variant":"none"}`: "variant",
		fmt.Sprintf(`{"title":%q}`, strings.Repeat("x", 1025)): "title",
	} {
		if p := change(body).problem(t, 400, "invalid_request"); p["field"] != field {
			t.Errorf("%.50s: %v", body, p)
		}
	}
	for _, c := range []call{
		{path: "/v1/sessions/absent"},
		{method: http.MethodPost, path: "/v1/sessions/absent/cancel"},
		{method: http.MethodPatch, path: "/v1/sessions/absent", body: `{"title":"x"}`, kind: "application/json"},
	} {
		s.do(t, c).problem(t, 404, "session_not_found")
	}
}
