package httpapi

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// basic returns the header of Basic authentication with a password.
func basic(password string) map[string]string {
	return map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("opencode:"+password))}
}

// openCodeError fails the test unless the answer is an error in OpenCode's form, and returns its
// message.
func (a answer) openCodeError(t *testing.T, status int, name string) string {
	t.Helper()
	var e struct {
		Name string
		Data struct{ Message string }
	}
	decode(t, a.want(t, status).body, &e)
	if e.Name != name || e.Data.Message == "" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s: error %s of type %s", a.Request.Method, a.Request.URL, a.body, a.Header.Get("Content-Type"))
	}
	return e.Data.Message
}

// TestOpenCodeAccess: every route wants the token, which may be a password, and errors have
// OpenCode's form.
func TestOpenCodeAccess(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	routes := 0
	for _, r := range s.rest.Router().GetRoutes(true) {
		if !strings.HasPrefix(r.Path, "/opencode/") || r.Method == http.MethodHead {
			continue
		}
		routes++
		s.do(t, call{method: r.Method, path: r.Path, anon: true}).openCodeError(t, 401, "UnauthorizedError")
	}
	if routes == 0 {
		t.Error("there are no routes")
	}
	s.do(t, call{path: "/opencode/session", header: basic(s.Token())}).want(t, 200)
	s.do(t, call{path: "/opencode/session", header: basic("wrong")}).openCodeError(t, 401, "UnauthorizedError")
	s.do(t, call{path: "/opencode/session?auth_token=" + base64.StdEncoding.EncodeToString([]byte("opencode:"+s.Token())), anon: true}).want(t, 200)
	s.do(t, call{path: "/v1/sessions", header: basic(s.Token())}).problem(t, 401, "token_invalid") // other APIs take no password
	_, view := s.token(t, `{"scope":"supervise"}`)
	s.do(t, call{path: "/opencode/session", header: basic(view)}).want(t, 403)
	s.do(t, call{path: "/opencode/nothing"}).openCodeError(t, 404, "NotFoundError")
	s.do(t, call{path: "/opencode/session?directory=a/b"}).openCodeError(t, 400, "BadRequest")
	s.do(t, call{path: "/opencode/session?limit=x"}).openCodeError(t, 400, "BadRequest")
}

// TestOpenCodeSessions lists sessions of other APIs.
func TestOpenCodeSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir, other := t.TempDir(), t.TempDir()+"/ä b"
	s.post(t, "/v1/sessions/one", `{"agent":"mock","directory":"`+dir+`","title":"First"}`).want(t, 200)
	ids := func(c call) (ids []string) {
		var all []struct {
			ID, Title, Directory string
			Model                struct{ ProviderID string }
		}
		decode(t, s.do(t, c).want(t, 200).body, &all)
		for _, one := range all {
			ids = append(ids, one.ID)
			if one.Title != "First" || one.Directory != dir || one.Model.ProviderID != "mock" {
				t.Errorf("session %+v", one)
			}
		}
		return ids
	}
	for path, want := range map[string][]string{
		"": {"one"}, "?directory=" + dir: {"one"}, "?directory=" + dir + "/": {"one"}, "?directory=/nowhere": nil,
		"?search=FIRST": {"one"}, "?search=second": nil, "?limit=1": {"one"},
	} {
		if got := ids(call{path: "/opencode/session" + path}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if got := ids(call{path: "/opencode/session", header: map[string]string{"X-Opencode-Directory": strings.ReplaceAll(other, " ", "%20")}}); got != nil {
		t.Errorf("the header does not count: %v", got)
	}
}

// ocEvent is an event of OpenCode's stream.
type ocEvent struct {
	ID, Type   string
	Properties struct {
		SessionID, MessageID, PartID, Delta, RequestID, Reply, ID string
		Info                                                      struct{ ID, Role string }
		Part                                                      struct{ Type, Text, Tool string }
		Status                                                    struct{ Type string }
	}
}

// ocEvents are the events of a stream.
type ocEvents struct {
	t      *testing.T
	events chan ocEvent
	seen   []string
}

// followOpenCode follows a stream until the test ends.
func followOpenCode(t *testing.T, s *testServer, path string) *ocEvents {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("%d %s", resp.StatusCode, kind)
	}
	f := &ocEvents{t: t, events: make(chan ocEvent, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(f.events)
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var global struct{ Payload *json.RawMessage }
			if json.Unmarshal([]byte(data), &global) == nil && global.Payload != nil {
				data = string(*global.Payload)
			}
			var e ocEvent
			if err := json.Unmarshal([]byte(data), &e); err != nil && t.Context().Err() == nil {
				t.Errorf("event %s: %v", data, err)
			}
			f.events <- e
		}
	}()
	t.Cleanup(func() { _ = resp.Body.Close(); <-done })
	if e := f.next(); e.Type != "server.connected" {
		t.Fatalf("the first event is %+v", e)
	}
	return f
}

func (f *ocEvents) next() ocEvent {
	f.t.Helper()
	select {
	case e, ok := <-f.events:
		if !ok {
			f.t.Fatalf("the stream ended after %v", f.seen)
		}
		f.seen = append(f.seen, e.Type)
		return e
	case <-time.After(30 * time.Second):
		f.t.Fatalf("no event after %v", f.seen)
	}
	return ocEvent{}
}

// until returns the events up to the first one of a type.
func (f *ocEvents) until(kind string) (all []ocEvent) {
	f.t.Helper()
	for {
		e := f.next()
		if all = append(all, e); e.Type == kind {
			return all
		}
	}
}

func typesOf(all []ocEvent) (types []string) {
	for _, e := range all {
		types = append(types, e.Type)
	}
	return types
}

// ocReply is a message with its parts.
type ocReply struct {
	Info struct {
		ID, Role, ParentID, ProviderID, ModelID, Finish string
		Error                                           *struct{ Name string }
	}
	Parts []struct {
		Type, Text, Tool string
		State            struct{ Status, Output string }
	}
}

func (r ocReply) text() string {
	var b strings.Builder
	for _, p := range r.Parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func newOpenCodeSession(t *testing.T, s *testServer, query string) string {
	t.Helper()
	var made struct{ ID string }
	decode(t, s.post(t, "/opencode/session"+query, `{"title":"T","model":{"providerID":"mock","id":"mock"}}`).want(t, 200).body, &made)
	return made.ID
}

// promptText is the body of a prompt.
func promptText(text string) string { return `{"parts":[{"type":"text","text":"` + text + `"}]}` }

// TestOpenCodeTurn: a turn has the events of OpenCode in their order, on both streams, and the
// session is in all APIs.
func TestOpenCodeTurn(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	local, global := followOpenCode(t, s, "/opencode/event?directory="+dir), followOpenCode(t, s, "/opencode/global/event")
	elsewhere := followOpenCode(t, s, "/opencode/event?directory=/elsewhere")
	id := newOpenCodeSession(t, s, "?directory="+dir)
	if got := local.until("session.created"); got[len(got)-1].Properties.Info.ID != id {
		t.Errorf("created %+v", got)
	}
	base := "/opencode/session/" + id
	var reply ocReply
	decode(t, s.post(t, base+"/message", `{"messageID":"msg_0123456789abZZZZZZZZZZZZZZ","model":{"providerID":"mock","modelID":"mock"},"parts":[{"type":"text","text":"hello there"}]}`).want(t, 200).body, &reply)
	if !strings.HasSuffix(reply.text(), "hello there") || reply.Info.Finish != "stop" || reply.Info.ParentID != "msg_0123456789abZZZZZZZZZZZZZZ" || reply.Info.ProviderID != "mock" {
		t.Errorf("reply %+v", reply)
	}
	want := []string{
		"message.updated", "message.part.updated", "session.status", "message.updated", "message.part.updated", // the prompt, step-start
		"message.part.updated", "message.part.delta", "message.part.delta", "message.part.updated", // text
		"message.part.updated", "message.updated", "session.status", "session.idle",
	}
	for _, f := range []*ocEvents{local, global} {
		got := slices.DeleteFunc(typesOf(f.until("session.idle")), func(k string) bool { return k == "session.updated" || k == "session.created" })
		if !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	}
	select {
	case e := <-elsewhere.events:
		t.Errorf("another directory has %+v", e)
	default:
	}
	var listed struct {
		Sessions []struct{ SessionID, Agent, Title string }
	}
	decode(t, s.get(t, "/v1/sessions").want(t, 200).body, &listed)
	if len(listed.Sessions) != 1 || listed.Sessions[0].SessionID != id || listed.Sessions[0].Agent != "mock" {
		t.Errorf("sessions %+v", listed)
	}
	// A turn of another API is in the stream, and the session's history in the messages.
	s.post(t, "/v1/sessions/"+id+"/messages", `{"message":"from elsewhere"}`).want(t, 204)
	got := local.until("session.idle")
	if !slices.ContainsFunc(got, func(e ocEvent) bool { return e.Properties.Delta == "from elsewhere" }) {
		t.Errorf("events %+v", got)
	}
	var all []ocReply
	decode(t, s.get(t, base+"/message").want(t, 200).body, &all)
	if len(all) != 4 || all[2].text() != "from elsewhere" || all[3].text() != "from elsewhere" {
		t.Errorf("messages %+v", all)
	}
	var one ocReply
	decode(t, s.get(t, base+"/message/"+all[1].Info.ID).want(t, 200).body, &one)
	if one.text() != all[1].text() {
		t.Errorf("message %+v", one)
	}
	decode(t, s.get(t, base+"/message?limit=1").want(t, 200).body, &all)
	if len(all) != 1 || all[0].text() != "from elsewhere" {
		t.Errorf("messages %+v", all)
	}
	s.get(t, base+"/message/msg_none").openCodeError(t, 404, "NotFoundError")
	s.get(t, "/opencode/session/none/message").openCodeError(t, 404, "NotFoundError")
}

// TestOpenCodeInterrupted: the agent ends in the middle of a turn. A stream that begins later gets
// the events of that end, until there is another turn.
func TestOpenCodeInterrupted(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir, other := t.TempDir(), t.TempDir()
	whole := followOpenCode(t, s, "/opencode/event")
	id := newOpenCodeSession(t, s, "?directory="+dir)
	prompt := "/opencode/session/" + id + "/prompt_async"
	s.post(t, prompt, promptText("crash")).want(t, 204)
	want := whole.until("session.idle")
	for _, path := range []string{"/opencode/event", "/opencode/global/event", "/opencode/event?directory=" + dir} {
		got := followOpenCode(t, s, path).until("session.idle")
		if end := want[max(0, len(want)-len(got)):]; !slices.Equal(got, end) || !slices.Contains(typesOf(got), "message.updated") || !slices.Contains(typesOf(got), "session.status") {
			t.Errorf("%s has %+v, want the end of %+v", path, got, want)
		}
	}
	elsewhere := followOpenCode(t, s, "/opencode/event?directory="+other)
	s.post(t, prompt, promptText("again")).want(t, 204)
	whole.until("session.idle")
	later := followOpenCode(t, s, "/opencode/event")
	newOpenCodeSession(t, s, "?directory="+other)
	for _, f := range []*ocEvents{elsewhere, later} {
		if got := typesOf(f.until("session.created")); slices.Contains(got, "session.idle") {
			t.Errorf("events %v", got)
		}
	}
}

// TestOpenCodeQueue: two prompts wait for each other, and an abort before the first event ends
// both.
func TestOpenCodeQueue(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	events := followOpenCode(t, s, "/opencode/event")
	id := newOpenCodeSession(t, s, "")
	base := "/opencode/session/" + id
	s.post(t, base+"/prompt_async", promptText("slow")).want(t, 204)
	s.post(t, base+"/prompt_async", promptText("later")).want(t, 204)
	var status map[string]struct{ Type string }
	decode(t, s.get(t, "/opencode/session/status").want(t, 200).body, &status)
	if status[id].Type != "busy" {
		t.Errorf("status %v", status)
	}
	if string(s.post(t, base+"/abort", "").want(t, 200).body) != "true" {
		t.Error("abort is not true")
	}
	got := events.until("session.idle")
	errs := 0
	for _, e := range got {
		if e.Type == "session.error" {
			errs++
		}
	}
	if errs != 2 {
		t.Errorf("%d turns were aborted: %v", errs, typesOf(got))
	}
	var all []ocReply
	decode(t, s.get(t, base+"/message").want(t, 200).body, &all)
	if len(all) != 4 || all[2].Info.Error == nil && all[1].Info.Error == nil {
		t.Errorf("messages %+v", all)
	}
	decode(t, s.get(t, "/opencode/session/status").want(t, 200).body, &status)
	s.post(t, base+"/prompt_async", promptText("first")).want(t, 204)
	var reply ocReply
	decode(t, s.post(t, base+"/message", promptText("second")).want(t, 200).body, &reply)
	if reply.text() != "second" {
		t.Errorf("reply %+v", reply)
	}
}

// TestOpenCodeReplies: permissions and questions are listed, answered once, wherever, and a
// second answer is an error.
func TestOpenCodeReplies(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	events := followOpenCode(t, s, "/opencode/event")
	id := newOpenCodeSession(t, s, "")
	base := "/opencode/session/" + id
	ask := func(text, kind string) string {
		s.post(t, base+"/prompt_async", promptText(text)).want(t, 204)
		all := events.until(kind)
		return all[len(all)-1].Properties.ID
	}
	p := ask("permission", "permission.asked")
	var open []struct {
		ID, SessionID, Permission string
		Tool                      struct{ MessageID, CallID string }
	}
	decode(t, s.get(t, "/opencode/permission").want(t, 200).body, &open)
	if len(open) != 1 || open[0].ID != p || open[0].SessionID != id || open[0].Tool.CallID == "" {
		t.Errorf("permissions %+v", open)
	}
	s.post(t, "/opencode/permission/"+p+"/reply", `{"reply":"perhaps"}`).openCodeError(t, 400, "BadRequest")
	s.post(t, "/opencode/permission/"+p+"/reply", `{"reply":"once"}`).want(t, 200)
	got := events.until("permission.replied")
	if e := got[len(got)-1]; e.Properties.RequestID != p || e.Properties.Reply != "once" {
		t.Errorf("replied %+v", e)
	}
	events.until("session.idle")
	if text := s.post(t, "/opencode/permission/"+p+"/reply", `{"reply":"once"}`).openCodeError(t, 404, "NotFoundError"); !strings.Contains(text, "answered") {
		t.Errorf("a second answer: %s", text)
	}
	p = ask("permission", "permission.asked") // answered by another API
	s.post(t, "/v1/sessions/"+id+"/permissions/"+p+"/reply", `{"reply":"reject"}`).want(t, 204)
	got = events.until("permission.replied")
	if e := got[len(got)-1]; e.Properties.Reply != "reject" {
		t.Errorf("replied %+v", e)
	}
	events.until("session.idle")
	p = ask("permission", "permission.asked")
	s.post(t, base+"/permissions/"+p, `{"response":"always"}`).want(t, 200)
	events.until("session.idle")

	q := ask("plan", "question.asked")
	var questions []struct {
		ID        string
		Questions []struct {
			Question string
			Options  []struct{ Label string }
		}
	}
	decode(t, s.get(t, "/opencode/question").want(t, 200).body, &questions)
	if len(questions) != 1 || questions[0].ID != q || len(questions[0].Questions[0].Options) == 0 {
		t.Fatalf("questions %+v", questions)
	}
	s.post(t, "/opencode/question/"+q+"/reply", `{"answers":[["nothing of it"]]}`).openCodeError(t, 400, "BadRequest")
	s.post(t, "/opencode/question/"+q+"/reply", `{"answers":[["`+questions[0].Questions[0].Options[0].Label+`"]]}`).want(t, 200)
	events.until("question.replied")
	events.until("session.idle")
	q = ask("plan", "question.asked")
	s.post(t, "/opencode/question/"+q+"/reject", "").want(t, 200)
	events.until("question.rejected")
	events.until("session.idle")
	s.post(t, "/opencode/question/"+q+"/reject", "").openCodeError(t, 404, "NotFoundError")

	// The agent gets the answer, but no message: the server ends.
	base = "/opencode/session/" + newOpenCodeSession(t, s, "")
	p = ask("permission", "permission.asked")
	var drain sync.WaitGroup
	drain.Go(func() { _ = s.Drain(t.Context()) })
	until(t, "the server drains", s.draining.Load)
	if a := s.post(t, "/opencode/permission/"+p+"/reply", `{"reply":"once","message":"do so"}`).want(t, 502); !strings.Contains(string(a.body), "has the answer once, but not the message") {
		t.Errorf("an answer without its message: %s", a.body)
	}
	drain.Wait()
}

// TestOpenCodeSessionChanges makes, changes and deletes sessions. A session without a model gets
// its agent with the first prompt.
func TestOpenCodeSessionChanges(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	var made, child struct{ ID, Title, Directory, ParentID string }
	decode(t, s.post(t, "/opencode/session?directory="+dir, `{}`).want(t, 200).body, &made)
	if made.Directory != dir || !strings.HasPrefix(made.ID, "ses_") {
		t.Errorf("session %+v", made)
	}
	base := "/opencode/session/" + made.ID
	decode(t, s.do(t, call{method: "PATCH", path: base, body: `{"title":"Draft"}`}).want(t, 200).body, &made)
	if made.Title != "Draft" {
		t.Errorf("session %+v", made)
	}
	if got := string(s.get(t, base+"/message").want(t, 200).body); got != "[]" {
		t.Errorf("messages %s", got)
	}
	decode(t, s.post(t, "/opencode/session", `{"parentID":"`+made.ID+`"}`).want(t, 200).body, &child)
	var children []struct{ ID, ParentID string }
	decode(t, s.get(t, base+"/children").want(t, 200).body, &children)
	if len(children) != 1 || children[0].ID != child.ID || children[0].ParentID != made.ID {
		t.Errorf("children %+v", children)
	}
	s.post(t, "/opencode/session", `{"parentID":"none"}`).openCodeError(t, 404, "NotFoundError")
	var reply ocReply
	decode(t, s.post(t, base+"/message", promptText("hello")).want(t, 200).body, &reply)
	if reply.Info.ProviderID != "mock" {
		t.Errorf("reply %+v", reply)
	}
	decode(t, s.get(t, base).want(t, 200).body, &made)
	if made.Title != "Draft" || made.Directory != dir {
		t.Errorf("session %+v", made)
	}
	s.post(t, base+"/message", `{"model":{"providerID":"codex","modelID":"x"},"parts":[{"type":"text","text":"a"}]}`).openCodeError(t, 400, "BadRequest")
	s.post(t, base+"/message", `{"agent":"nowhere","parts":[{"type":"text","text":"a"}]}`).openCodeError(t, 400, "BadRequest")
	s.post(t, base+"/message", `{"parts":[]}`).openCodeError(t, 400, "BadRequest")
	s.post(t, base+"/message", `{"noReply":true,"parts":[{"type":"text","text":"a"}]}`).openCodeError(t, 501, "NotImplementedError")
	for _, path := range []string{"/share", "/revert", "/summarize"} {
		s.post(t, base+path, `{}`).openCodeError(t, 501, "NotImplementedError")
	}
	decode(t, s.post(t, base+"/message", `{"agent":"plan","parts":[{"type":"text","text":"demo"}]}`).want(t, 200).body, &reply)
	var todos []struct{ Content, Status string }
	decode(t, s.get(t, base+"/todo").want(t, 200).body, &todos)
	if len(todos) != 2 || todos[1].Status != "completed" {
		t.Errorf("todos %+v", todos)
	}
	decode(t, s.post(t, base+"/command", `{"command":"review","arguments":"all"}`).want(t, 200).body, &reply)
	if reply.text() != "/review all" {
		t.Errorf("reply %+v", reply)
	}
	s.post(t, base+"/command", `{"command":"other","arguments":""}`).openCodeError(t, 400, "BadRequest")
	s.post(t, base+"/message", promptText("diff")).want(t, 200)
	var diffs []struct {
		File, Patch          string
		Additions, Deletions int
	}
	decode(t, s.get(t, base+"/diff").want(t, 200).body, &diffs)
	if len(diffs) == 0 || diffs[0].Additions == 0 || !strings.HasPrefix(diffs[0].Patch, "--- ") {
		t.Errorf("diffs %+v", diffs)
	}
	if string(s.post(t, base+"/init", `{"providerID":"mock","modelID":"mock","messageID":"msg_1"}`).want(t, 200).body) != "true" {
		t.Error("init is not true")
	}
	s.do(t, call{method: "DELETE", path: base}).want(t, 200)
	s.get(t, base).openCodeError(t, 404, "NotFoundError")
	if got := string(s.get(t, "/opencode/session?directory="+dir).want(t, 200).body); got != "[]" {
		t.Errorf("sessions %s", got)
	}
}

// TestOpenCodeRestart: a server that is started again shows all, and the session continues.
func TestOpenCodeRestart(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	var id, draft string
	t.Run("before", func(t *testing.T) {
		s := serve(t, Config{StateDir: state})
		id = newOpenCodeSession(t, s, "")
		s.post(t, "/opencode/session/"+id+"/message", promptText("one")).want(t, 200)
		var made struct{ ID string }
		decode(t, s.post(t, "/opencode/session", `{"title":"Later"}`).want(t, 200).body, &made)
		draft = made.ID
		s.post(t, "/opencode/session/"+id+"/prompt_async", promptText("slow")).want(t, 204)
	})
	s := serve(t, Config{StateDir: state})
	events := followOpenCode(t, s, "/opencode/event")
	var all []struct{ ID, Title string }
	decode(t, s.get(t, "/opencode/session").want(t, 200).body, &all)
	if len(all) != 2 || all[0].ID != draft || all[0].Title != "Later" || all[1].ID != id {
		t.Errorf("sessions %+v", all)
	}
	var messages []ocReply
	decode(t, s.get(t, "/opencode/session/"+id+"/message").want(t, 200).body, &messages)
	if len(messages) != 4 || messages[3].Info.Error == nil {
		t.Errorf("messages %+v", messages)
	}
	var reply ocReply
	decode(t, s.post(t, "/opencode/session/"+id+"/message", promptText("two")).want(t, 200).body, &reply)
	if reply.text() != "two" {
		t.Errorf("reply %+v", reply)
	}
	got := events.until("session.idle")
	if slices.ContainsFunc(got, func(e ocEvent) bool { return e.Properties.Delta == "one" }) {
		t.Errorf("old events come again: %+v", got)
	}
}

// TestOpenCodeShell runs a command of the user in the directory of a session.
func TestOpenCodeShell(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	id := newOpenCodeSession(t, s, "?directory="+dir)
	base := "/opencode/session/" + id
	var reply ocReply
	decode(t, s.post(t, base+"/shell", `{"agent":"build","command":"pwd; exit 3"}`).want(t, 200).body, &reply)
	if len(reply.Parts) != 1 || reply.Parts[0].Tool != "bash" || reply.Parts[0].State.Status != "completed" || strings.TrimSpace(reply.Parts[0].State.Output) != dir {
		t.Errorf("reply %+v", reply)
	}
	var all []ocReply
	decode(t, s.get(t, base+"/message").want(t, 200).body, &all)
	if len(all) != 2 || all[1].Info.ID != reply.Info.ID {
		t.Errorf("messages %+v", all)
	}
	s.post(t, base+"/shell", `{"command":" "}`).openCodeError(t, 400, "BadRequest")
}

// TestOpenCodeFork: a fork has the messages before one, with ids of its own, and both sessions
// go on.
func TestOpenCodeFork(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	events := followOpenCode(t, s, "/opencode/event")
	id := newOpenCodeSession(t, s, "")
	base := "/opencode/session/" + id
	for _, text := range []string{"hello", "other"} {
		s.post(t, base+"/message", `{"messageID":"msg_`+text+`","parts":[{"type":"text","text":"`+text+`"}]}`).want(t, 200)
	}
	messages := func(id string) (all []ocReply) {
		t.Helper()
		decode(t, s.get(t, "/opencode/session/"+id+"/message").want(t, 200).body, &all)
		return all
	}
	all := messages(id)
	var fork struct{ ID, Title, Directory string }
	decode(t, s.post(t, base+"/fork", `{"messageID":"`+all[3].Info.ID+`"}`).want(t, 200).body, &fork)
	if fork.ID == id || fork.Title != "T (fork)" {
		t.Errorf("fork %+v", fork)
	}
	for got := events.until("session.created"); got[len(got)-1].Properties.Info.ID != fork.ID; got = events.until("session.created") {
		continue
	}
	copied := messages(fork.ID)
	if len(copied) != 2 || copied[0].text() != "hello" || copied[1].text() != all[1].text() || copied[0].Info.ID == all[0].Info.ID || copied[1].Info.ID == all[1].Info.ID {
		t.Errorf("messages of the fork %+v", copied)
	}
	s.post(t, "/opencode/session/"+fork.ID+"/message", promptText("more")).want(t, 200)
	if copied = messages(fork.ID); len(copied) != 4 || !strings.HasSuffix(copied[3].text(), "more") || len(messages(id)) != 4 {
		t.Errorf("messages of the fork %+v", copied)
	}
	s.post(t, base+"/fork", `{"messageID":"msg_none"}`).openCodeError(t, 404, "NotFoundError")
}

// TestOpenCodeArchived: a session that one API archives is archived in the other one.
func TestOpenCodeArchived(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	id := newOpenCodeSession(t, s, "")
	base := "/opencode/session/" + id
	check := func(want bool) {
		t.Helper()
		var ours struct{ Archived bool }
		var theirs struct{ Time struct{ Archived int64 } }
		decode(t, s.get(t, "/v1/sessions/"+id).want(t, 200).body, &ours)
		decode(t, s.get(t, base).want(t, 200).body, &theirs)
		if ours.Archived != want || theirs.Time.Archived > 0 != want {
			t.Errorf("archived: %+v and %+v, want %t", ours, theirs, want)
		}
	}
	s.do(t, call{method: "PATCH", path: base, body: `{"time":{"archived":1700000000000}}`}).want(t, 200)
	check(true)
	s.do(t, call{method: "PATCH", path: "/v1/sessions/" + id, body: `{"archived":false}`}).want(t, 204)
	check(false)
	s.do(t, call{method: "PATCH", path: "/v1/sessions/" + id, body: `{"archived":true}`}).want(t, 204)
	check(true)
}
