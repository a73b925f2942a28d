package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
)

// universalEvent is an event as a client reads it.
type universalEvent struct {
	ID       string          `json:"event_id"`
	Sequence int64           `json:"sequence"`
	Session  string          `json:"session_id"`
	Type     string          `json:"type"`
	Raw      json.RawMessage `json:"raw"`
	Data     struct {
		Item struct {
			Kind, Status string
			Content      []struct{ Type, Text string }
		}
		Permission string `json:"permission_id"`
		Question   string `json:"question_id"`
		Status     string
		Delta      string
		TurnID     string `json:"turn_id"`
		Reason     string
	}
}

// sessionInfo describes a session in the list of all.
type sessionInfo struct {
	ID             string `json:"sessionId"`
	Agent          string
	AgentMode      string
	PermissionMode string
	Model          string
	Variant        string
	Title          string
	Directory      string
	Ended          bool
	EventCount     int64
	State          string
	Error          *struct {
		Message string
		Agent   *string
		Code    *int `json:"exitCode"`
		Stderr  *string
	}
}

// sse reads events from a stream until f says that it has seen enough, or the
// stream ends.
func (s *testServer) sse(t *testing.T, c call, f func(universalEvent) bool) (all []universalEvent) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	method := http.MethodGet
	if c.body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token())
	req.Header.Set("Content-Type", "application/json")
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%s: %d %s", c.path, resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e universalEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		all = append(all, e)
		if f != nil && f(e) {
			return all
		}
	}
	return all
}

func (s *testServer) message(t *testing.T, id, text string) {
	t.Helper()
	s.post(t, "/v1/sessions/"+id+"/messages", fmt.Sprintf(`{"message":%q}`, text)).want(t, http.StatusNoContent)
}

func isType(kind string) func(universalEvent) bool {
	return func(e universalEvent) bool { return e.Type == kind }
}

// turn says something and returns the events of the turn.
func (s *testServer) turn(t *testing.T, id, text string) []universalEvent {
	t.Helper()
	return s.sse(t, call{path: "/v1/sessions/" + id + "/messages/stream", body: fmt.Sprintf(`{"message":%q}`, text)}, nil)
}

// said is what the agent's messages say.
func said(events []universalEvent) string {
	var b strings.Builder
	for _, e := range events {
		if e.Type == "item.completed" && e.Data.Item.Kind == "message" {
			for _, p := range e.Data.Item.Content {
				b.WriteString(p.Text + "|")
			}
		}
	}
	return b.String()
}

func TestSessions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, Config{})
	made := s.post(t, "/v1/sessions/first", fmt.Sprintf(`{"agent":"mock","directory":%q,"agentMode":"plan","model":"mock-fast","variant":"high","title":"A title"}`, dir))
	m := made.want(t, 200).json(t)
	if m["healthy"] != true || m["nativeSessionId"] == nil || m["agentSessionId"] != m["nativeSessionId"] || m["native_session_id"] != m["nativeSessionId"] {
		t.Fatal(m)
	}
	if got := s.do(t, call{path: "/v1/sessions/first"}).want(t, 200).json(t); got["agentSessionId"] != m["nativeSessionId"] || got["native_session_id"] != m["nativeSessionId"] {
		t.Fatal(got)
	}
	s.post(t, "/v1/sessions/first", `{"agent":"mock"}`).problem(t, 409, "session_already_exists")
	if got := said(s.turn(t, "first", "hello")); !strings.HasSuffix(got, "hello|") {
		t.Errorf("%q", got)
	}
	turn := s.turn(t, "first", "second")
	if turn[0].Type != "turn.started" || turn[len(turn)-1].Type != "turn.ended" || said(turn) != "second|second|" || turn[0].Data.TurnID != turn[len(turn)-1].Data.TurnID {
		t.Errorf("%+v", turn)
	}

	// The list, and the pages of events.
	var list struct{ Sessions []sessionInfo }
	decode(t, s.do(t, call{path: "/v1/sessions"}).want(t, 200).body, &list)
	if len(list.Sessions) != 1 {
		t.Fatalf("%+v", list)
	}
	info := list.Sessions[0]
	if info.ID != "first" || info.Agent != "mock" || info.AgentMode != "plan" || info.PermissionMode != "default" || info.Model != "mock-fast" ||
		info.Variant != "high" || info.Title != "A title" || info.Directory != dir || info.Ended || info.EventCount < 10 || info.State != "idle" {
		t.Errorf("%+v", info)
	}
	var all []universalEvent
	for more := true; more; {
		var page struct {
			Events  []universalEvent
			HasMore bool
		}
		decode(t, s.do(t, call{path: fmt.Sprintf("/v1/sessions/first/events?limit=7&include_raw=true&offset=%d", len(all))}).want(t, 200).body, &page)
		all, more = append(all, page.Events...), page.HasMore
	}
	if int64(len(all)) != info.EventCount || all[0].Type != "session.started" {
		t.Errorf("%d events, and %d are said to be there; the first is %s", len(all), info.EventCount, all[0].Type)
	}
	raws := 0
	for i, e := range all {
		if e.Sequence != int64(i+1) || e.Session != "first" {
			t.Errorf("event %d is %+v", i+1, e)
		}
		if string(e.Raw) != "null" {
			raws++
		}
	}
	if raws == 0 {
		t.Error("no event has its raw form")
	}
	if got := s.sse(t, call{path: "/v1/sessions/first/events/sse?offset=5"}, func(e universalEvent) bool { return e.Sequence == info.EventCount }); got[0].Sequence != 6 || string(got[0].Raw) != "null" {
		t.Errorf("%+v", got[0])
	}
	again := call{path: "/v1/sessions/first/events/sse?offset=2", header: map[string]string{"Last-Event-ID": "7"}}
	if got := s.sse(t, again, func(universalEvent) bool { return true }); got[0].Sequence != 8 {
		t.Errorf("who connects again after event 7 gets event %d", got[0].Sequence)
	}
	again.header["Last-Event-ID"] = "99999999999999999999"
	s.do(t, again).problem(t, 400, "invalid_request")
	testEnd(t, s)
}

// testEnd ends the session first.
func testEnd(t *testing.T, s *testServer) {
	t.Helper()
	s.post(t, "/v1/sessions/first/terminate", "").want(t, http.StatusNoContent)
	ended := s.sse(t, call{path: "/v1/sessions/first/events/sse"}, isType("session.ended"))
	if e := ended[len(ended)-1]; e.Data.Reason != "terminated" {
		t.Errorf("%+v", e)
	}
	s.post(t, "/v1/sessions/first/messages", `{"message":"x"}`).want(t, http.StatusConflict)
	s.post(t, "/v1/sessions/first/terminate", "").want(t, http.StatusNoContent)
	for _, path := range []string{"/messages", "/messages/stream", "/terminate", "/permissions/x/reply", "/questions/x/reply", "/questions/x/reject"} {
		body := map[string]string{"/permissions/x/reply": `{"reply":"once"}`, "/questions/x/reply": `{"answers":[["x"]]}`}[path]
		if strings.HasPrefix(path, "/messages") {
			body = `{"message":"x"}`
		}
		s.post(t, "/v1/sessions/absent"+path, body).problem(t, 404, "session_not_found")
	}
	for _, path := range []string{"/events", "/events/sse"} {
		s.do(t, call{path: "/v1/sessions/absent" + path}).problem(t, 404, "session_not_found")
	}
	for body, status := range map[string]int{
		`{"agent":"nothing"}`: 400, `{"agent":"mock","directory":"relative"}`: 400, `{"agent":"mock","permissionMode":"never"}`: 422, `{}`: 422,
		`{"agent":"mock","mcp":{"x":{"type":"odd"}}}`: 400,
	} {
		code := "invalid_request"
		if strings.Contains(body, "nothing") {
			code = "unsupported_agent"
		}
		s.post(t, "/v1/sessions/other", body).problem(t, status, code)
	}
	for _, c := range []struct {
		path, body string
		status     int
		field      any
	}{
		{"first/messages", `{"message":" "}`, 400, "message"},
		{"first/messages/stream", `{"message":"x","attachments":[{"path":""}]}`, 400, "attachments"},
		{"first/messages", `{"message":5}`, 422, nil},
		{"first/permissions/x/reply", `{"reply":"never"}`, 422, nil},
		{"other", `{"agent":"mock","directory":"relative","skills":{"sources":[]}}`, 400, "directory"},
	} {
		if p := s.post(t, "/v1/sessions/"+c.path, c.body).problem(t, c.status, "invalid_request"); p["field"] != c.field || p["code"] != nil {
			t.Errorf("%s %s: %v", c.path, c.body, p)
		}
	}
}

func TestSessionReplies(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	s.post(t, "/v1/sessions/asks", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	s.turn(t, "asks", "hello")
	last := int64(0)
	ask := func(word, kind string) universalEvent {
		t.Helper()
		s.message(t, "asks", word)
		got := s.sse(t, call{path: fmt.Sprintf("/v1/sessions/asks/events/sse?offset=%d", last)}, isType(kind))
		last = got[len(got)-1].Sequence
		return got[len(got)-1]
	}
	finish := func(kind, status string) string {
		t.Helper()
		got := s.sse(t, call{path: fmt.Sprintf("/v1/sessions/asks/events/sse?offset=%d", last)}, isType("turn.ended"))
		last = got[len(got)-1].Sequence
		if got[0].Type != kind || got[0].Data.Status != status {
			t.Errorf("%+v instead of %s %s", got[0], kind, status)
		}
		return said(got)
	}
	// No reply counts for more than the client asked for.
	for _, tt := range []struct{ offered, reply, instead, status, said string }{
		{"allow_always reject_once", "once", "reject", "reject", "I was not allowed to run it (reject_once).|"},
		{"allow_once reject_always", "reject", "once", "accept", "I was allowed to run it (allow_once).|"},
	} {
		e := ask("permission "+tt.offered, "permission.requested")
		path := "/v1/sessions/asks/permissions/" + e.Data.Permission + "/reply"
		p := s.post(t, path, fmt.Sprintf(`{"reply":%q}`, tt.reply)).problem(t, 409, "conflict")
		for kind := range strings.FieldsSeq(tt.offered) {
			if detail, _ := p["detail"].(string); !strings.Contains(detail, kind) {
				t.Errorf("%s does not name %s: %v", tt.reply, kind, p)
			}
		}
		s.post(t, path, fmt.Sprintf(`{"reply":%q}`, tt.instead)).want(t, http.StatusNoContent)
		if got := finish("permission.resolved", tt.status); got != tt.said {
			t.Errorf("%s: %q", tt.offered, got)
		}
	}
	for _, tt := range []struct{ reply, status, said string }{
		{"once", "accept", "I was allowed to run it (allow_once).|"},
		{"reject", "reject", "I was not allowed to run it (reject_once).|"},
		{"always", "accept_for_session", "I was allowed to run it (allow_always).|"},
	} {
		e := ask("permission", "permission.requested")
		path := "/v1/sessions/asks/permissions/" + e.Data.Permission + "/reply"
		s.post(t, path, `{"reply":"perhaps"}`).want(t, 422)
		s.post(t, path, fmt.Sprintf(`{"reply":%q}`, tt.reply)).want(t, http.StatusNoContent)
		s.post(t, path, `{"reply":"once"}`).want(t, http.StatusNotFound)
		if got := finish("permission.resolved", tt.status); got != tt.said {
			t.Errorf("%s: %q", tt.reply, got)
		}
	}
	e := ask("plan", "question.requested")
	path := "/v1/sessions/asks/questions/" + e.Data.Question
	for _, bad := range []string{`{"answers":[]}`, `{"answers":[["Yes"],["Yes"]]}`, `{"answers":[["Perhaps"]]}`} {
		if p := s.post(t, path+"/reply", bad).problem(t, 400, "invalid_request"); p["field"] != "answers" {
			t.Errorf("%s: %v", bad, p)
		}
	}
	s.post(t, path+"/reply", `{"answers":[["Yes"]]}`).want(t, http.StatusNoContent)
	if got := finish("question.resolved", "answered"); !strings.Contains(got, "approved") {
		t.Error(got)
	}
	e = ask("plan", "question.requested")
	s.post(t, "/v1/sessions/asks/questions/"+e.Data.Question+"/reject", "").want(t, http.StatusNoContent)
	if got := finish("question.resolved", "rejected"); !strings.Contains(got, "not approved") {
		t.Error(got)
	}

	// A question that is not about permission.
	e = ask("question", "question.requested")
	var open struct {
		Permissions []struct {
			ID, Message string
			Questions   []agents.FormQuestion
		}
	}
	decode(t, s.get(t, "/v1/permissions?session=asks").want(t, 200).body, &open)
	if len(open.Permissions) != 1 || open.Permissions[0].ID != e.Data.Question || open.Permissions[0].Message != "Please choose." || len(open.Permissions[0].Questions) != 2 {
		t.Errorf("the open questions are %+v", open)
	}
	path = "/v1/sessions/asks/questions/" + e.Data.Question
	for _, bad := range []string{`{"answers":[["Red","Blue"]]}`, `{"answers":[[],["Huge"]]}`, `{"answers":[[],[],[]]}`} {
		if p := s.post(t, path+"/reply", bad).problem(t, 400, "invalid_request"); p["field"] != "answers" {
			t.Errorf("%s: %v", bad, p)
		}
	}
	s.post(t, path+"/reply", `{"answers":[["blue"],["Small","l"]]}`).want(t, http.StatusNoContent)
	s.post(t, path+"/reply", `{"answers":[["blue"]]}`).want(t, http.StatusNotFound)
	if got := finish("question.resolved", "answered"); got != `You answered {"action":"accept","content":{"colour":"blue","sizes":["s","l"]}}.|` {
		t.Error(got)
	}
	e = ask("question", "question.requested")
	s.post(t, "/v1/sessions/asks/questions/"+e.Data.Question+"/reply", `{"answers":[["Own words"]]}`).want(t, http.StatusNoContent)
	if got := finish("question.resolved", "answered"); got != `You answered {"action":"accept","content":{"colour_custom":"Own words"}}.|` {
		t.Error(got)
	}
	e = ask("question", "question.requested")
	s.post(t, "/v1/sessions/asks/questions/"+e.Data.Question+"/reject", "").want(t, http.StatusNoContent)
	if got := finish("question.resolved", "rejected"); got != `You answered {"action":"decline"}.|` {
		t.Error(got)
	}
	e = ask("question", "question.requested")
	s.post(t, "/v1/sessions/asks/cancel", "").want(t, http.StatusNoContent)
	finish("question.resolved", "rejected")
}

// asker is an agent that asks a question, which is in the file DIR/question, and ends the turn
// after the answer.
const asker = `#!/bin/sh
while read -r line; do
id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
case "$line" in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":1}}' ;;
*'"session/new"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"x"}}' ;;
*'"session/prompt"'*) turn=$id; cat DIR/question ;;
*) echo '{"jsonrpc":"2.0","id":'$turn',"result":{"stopReason":"end_turn"}}' ;;
esac
done
`

// The error for an option that a question does not have names the first 64 options, and 100
// characters of each.
func TestManyOptionsInError(t *testing.T) {
	t.Parallel()
	dir, long := t.TempDir(), strings.Repeat("x", 5_000)
	options := make([]string, 80)
	for i := range options {
		options[i] = fmt.Sprintf(`{"optionId":"o%d","name":"Name %d %s","kind":"allow_once"}`, i, i, long)
	}
	question := `{"id":"q","method":"session/request_permission","params":{"sessionId":"x","toolCall":{"toolCallId":"t"},"options":[` +
		strings.Join(options, ",") + "]}}\n"
	agent := filepath.Join(dir, "agent")
	for name, text := range map[string]string{agent: strings.ReplaceAll(asker, "DIR", dir), filepath.Join(dir, "question"): question} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{}
	cfg.AgentHost.Launch = func(context.Context, string) (agents.Launch, error) { return agents.Launch{Path: agent}, nil }
	s := serve(t, cfg)
	s.post(t, "/v1/sessions/asks", fmt.Sprintf(`{"agent":"mock","directory":%q}`, dir)).want(t, 200)
	s.message(t, "asks", "hello")
	asked := s.sse(t, call{path: "/v1/sessions/asks/events/sse"}, isType("permission.requested"))
	path := "/v1/sessions/asks/questions/" + asked[len(asked)-1].Data.Permission + "/reply"
	p := s.post(t, path, `{"answers":[["`+long+`"]]}`).problem(t, 400, "invalid_request")
	detail, _ := p["detail"].(string)
	if n := strings.Count(detail, "Name "); n != 64 || len(detail) > 10_000 || strings.Contains(detail, "Name 64") {
		t.Errorf("an error of %d bytes that names %d options, want the first 64 options", len(detail), n)
	}
	s.post(t, path, fmt.Sprintf(`{"answers":[["Name 63 %s"]]}`, long)).want(t, http.StatusNoContent)
}

// TestSessionEventsOutliveTheServer reads the same events, under the same
// numbers, from the next server.
func TestSessionEventsOutliveTheServer(t *testing.T) {
	t.Parallel()
	state, dir := t.TempDir(), t.TempDir()
	events := func(s *testServer) string {
		t.Helper()
		return string(s.do(t, call{path: "/v1/sessions/kept/events"}).want(t, 200).body)
	}
	var before string
	t.Run("first", func(t *testing.T) {
		s := serve(t, Config{StateDir: state})
		s.post(t, "/v1/sessions/kept", fmt.Sprintf(`{"agent":"mock","directory":%q}`, dir)).want(t, 200)
		s.turn(t, "kept", "demo")
		before = events(s)
	})
	t.Run("second", func(t *testing.T) {
		s := serve(t, Config{StateDir: state})
		s.do(t, call{path: "/v1/sessions/kept/events?limit=1"}).want(t, 200)
		s.do(t, call{path: "/v1/sessions"}).want(t, 200) // stores what came at the end
		after := events(s)
		if common := strings.TrimSuffix(before, `],"hasMore":false}`+"\n"); !strings.HasPrefix(after, strings.TrimSuffix(common, `],"hasMore":false}`)) {
			t.Errorf("the events were\n%s\nand are\n%s", before, after)
		}
		turn := s.turn(t, "kept", "go on")
		if got := said(turn); got != "go on|go on|" {
			t.Errorf("%q", got)
		}
		var page struct{ Events []universalEvent }
		decode(t, []byte(events(s)), &page)
		for i, e := range page.Events {
			if e.Sequence != int64(i+1) {
				t.Fatalf("event %d has the number %d", i+1, e.Sequence)
			}
		}
		seen := map[string]bool{}
		for _, e := range page.Events {
			if seen[e.ID] {
				t.Errorf("%s is there twice", e.ID)
			}
			seen[e.ID] = true
		}
	})
}

func decode(t *testing.T, text []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}
