package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestLargePermissions: the list of open requests names all of them. It has the tool calls that
// are not large, and the options until they are too many. The stream does the same.
func TestLargePermissions(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	if err := s.OpenAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	const requests, small, huge, first, last = 20, 0, 1, 2, 19
	err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
		if err := tx.PutSession(eventlog.Session{ID: "asked", Agent: "mock", Origin: "rest", State: eventlog.Waiting}); err != nil {
			return err
		}
		for i := range requests {
			bytes := 900 << 10
			switch i {
			case small:
				bytes = 100
			case huge:
				bytes = 3 << 20
			}
			err := tx.PutRequest(eventlog.Request{
				RequestKey: eventlog.RequestKey{Process: "gone", Dir: eventlog.Agent, RPC: fmt.Sprintf("%02d", i)},
				Session:    "asked", PublicID: fmt.Sprint("q", i), Method: "session/request_permission",
				Params: fmt.Appendf(nil, `{"toolCall":{"toolCallId":"c%d","kind":"edit","title":"Edit","content":%q},"options":[{"optionId":"yes"}]}`, i, strings.Repeat("<", bytes)),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	type permission struct {
		ID        string
		Tool      json.RawMessage `json:"toolCall"`
		Options   json.RawMessage
		Truncated bool
	}
	short := func(i int) string { return fmt.Sprintf(`{"toolCallId":"c%d","kind":"edit","title":"Edit"}`, i) }
	var list struct{ Permissions []permission }
	decode(t, s.do(t, call{path: "/v1/permissions"}).want(t, 200).body, &list)
	all := list.Permissions
	if len(all) != requests {
		t.Fatalf("%d requests of %d", len(all), requests)
	}
	for i, p := range all {
		if p.ID != fmt.Sprint("q", i) {
			t.Errorf("request %d is %s", i, p.ID)
		}
		if p.Truncated != (i != small) {
			t.Errorf("request %d: truncated is %v", i, p.Truncated)
		}
	}
	if !strings.Contains(string(all[small].Tool), "<<<<") || all[small].Options == nil {
		t.Errorf("the small request is %s with %s", all[small].Tool, all[small].Options)
	}
	if all[huge].Tool != nil || all[huge].Options != nil {
		t.Errorf("the largest request has %d bytes", len(all[huge].Tool)+len(all[huge].Options))
	}
	if string(all[first].Tool) != short(first) || all[first].Options == nil {
		t.Errorf("the tool call of a large request has %d bytes; the options are %s", len(all[first].Tool), all[first].Options)
	}
	if all[last].Tool != nil || all[last].Options != nil {
		t.Errorf("the last request is %.100s with %s", all[last].Tool, all[last].Options)
	}
	stream := s.followAll(t, "topics=permissions", "")
	for i := range requests {
		e := stream.next()
		var got struct{ Permission permission }
		decode(t, []byte(e.data), &got)
		if p := got.Permission; p.ID != all[i].ID || i > huge && (string(p.Tool) != short(i) || p.Options == nil) || i == huge && p.Tool != nil {
			t.Errorf("event %d: %s with %d bytes of a tool call", i, p.ID, len(p.Tool))
		}
	}
}

// TestAmbiguousAnswer: an answer that names several options of a question is refused.
func TestAmbiguousAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	if err := s.OpenAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, q := range [][2]string{
		{"session/request_permission", `{"options":[{"optionId":"all","name":"Yes","kind":"allow_always"},{"optionId":"one","name":"Yes","kind":"allow_once"}]}`},
		{agents.MethodForm, `{"requestedSchema":{"properties":{"k":{"type":"string","enum":["all","one"],"enumNames":["Yes","Yes"]}}}}`},
	} {
		id := fmt.Sprint("q", i)
		err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
			if err := tx.PutSession(eventlog.Session{ID: "asked", Agent: "mock", Origin: "rest", State: eventlog.Waiting}); err != nil {
				return err
			}
			return tx.PutRequest(eventlog.Request{
				RequestKey: eventlog.RequestKey{Process: "gone", Dir: eventlog.Agent, RPC: id},
				Session:    "asked", PublicID: id, Method: q[0], Params: []byte(q[1]),
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/v1/sessions/asked/questions/" + id + "/reply", "/opencode/question/" + id + "/reply"} {
			if a := s.post(t, path, `{"answers":[["yes"]]}`).want(t, 400); !strings.Contains(string(a.body), "several options") || !strings.Contains(string(a.body), "request: answers") {
				t.Errorf("%s: %s", path, a.body)
			}
		}
	}
}

// TestQuestionWithoutParams: a question that has no parameters is not shown as a question of which
// parts are left out, and a reply is refused with the reason.
func TestQuestionWithoutParams(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	if err := s.OpenAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	methods := []string{"session/request_permission", agents.MethodForm}
	err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
		for i, method := range methods {
			err := tx.PutRequest(eventlog.Request{
				RequestKey: eventlog.RequestKey{Process: "gone", Dir: eventlog.Agent, RPC: fmt.Sprint(i)},
				Session:    "asked", PublicID: fmt.Sprint("q", i), Method: method,
			})
			if err != nil {
				return err
			}
		}
		return tx.PutSession(eventlog.Session{ID: "asked", Agent: "mock", Origin: "rest", State: eventlog.Waiting})
	})
	if err != nil {
		t.Fatal(err)
	}
	if list := string(s.get(t, "/v1/permissions").want(t, 200).body); !strings.Contains(list, `"q1"`) || strings.Contains(list, "truncated") {
		t.Errorf("permissions = %s", list)
	}
	for i, method := range methods {
		id := fmt.Sprint("q", i)
		for _, path := range []string{"/v1/sessions/asked/questions/" + id + "/reply", "/opencode/question/" + id + "/reply"} {
			if a := s.post(t, path, `{"answers":[["yes"]]}`).want(t, 409); !strings.Contains(string(a.body), "cannot be answered here: ") {
				t.Errorf("%s to %s: %s", path, method, a.body)
			}
		}
	}
}
