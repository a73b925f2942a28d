package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// allEvent is an event of the stream of the whole server.
type allEvent struct {
	sse
	Type    string
	Topic   string
	State   string
	Desktop string
	Action  struct {
		Name   string
		At     *struct{ X, Y int }
		Text   string
		Keys   string
		Length int
	}
	Session struct {
		ID           string `json:"sessionId"`
		State        string
		WaitingSince int64
		Title        string
	}
	Permission struct {
		ID      string
		Session string `json:"sessionId"`
	}
	ID        string
	Outcome   string
	Process   struct{ ID, Status string }
	Recording struct{ ID, Status string }
	Name      string
	Kind      string
	Reason    string
	Sequence  int64
	Raw       json.RawMessage
}

// allStream reads the stream of the whole server.
type allStream struct {
	t      *testing.T
	events <-chan sse
	last   string // the id of the last event that was read
}

// followAll opens the stream with a query. after is the id of an event; empty: none.
func (s *testServer) followAll(t *testing.T, query, after string) *allStream {
	t.Helper()
	header := map[string]string{}
	if after != "" {
		header["Last-Event-ID"] = after
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &allStream{t: t, events: s.follow(ctx, t, "/v1/events?"+query, header)}
}

// next returns the next event.
func (a *allStream) next() allEvent {
	a.t.Helper()
	select {
	case e, open := <-a.events:
		if !open {
			a.t.Fatal("the stream has ended")
		}
		got := allEvent{sse: e}
		decode(a.t, []byte(e.data), &got)
		a.last = e.id
		return got
	case <-time.After(time.Minute):
		a.t.Fatal("no event within a minute")
	}
	panic("unreachable")
}

// await returns the next event for which is returns true.
func (a *allStream) await(is func(allEvent) bool) allEvent {
	a.t.Helper()
	for {
		if e := a.next(); is(e) {
			return e
		}
	}
}

// awaitBoth reads events until two have come, in any order. It returns them by their types and
// the states of their sessions.
func (a *allStream) awaitBoth(one, other string) map[string]allEvent {
	a.t.Helper()
	seen := map[string]allEvent{}
	for seen[one].event == "" || seen[other].event == "" {
		e := a.next()
		seen[e.Session.State], seen[e.Type] = e, e
	}
	return seen
}

func named(event, kind string) func(allEvent) bool {
	return func(e allEvent) bool { return e.event == event && e.Type == kind }
}

func inState(id, state string) func(allEvent) bool {
	return func(e allEvent) bool { return e.event == "sessions" && e.Session.ID == id && e.Session.State == state }
}

// TestAllEventsOfSessions follows sessions from their creation to their end, with a permission
// request, and resumes.
func TestAllEventsOfSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	all := s.followAll(t, "topics=sessions,permissions", "")
	s.post(t, "/v1/sessions/mine", fmt.Sprintf(`{"agent":"mock","directory":%q}`, dir)).want(t, 200)
	if e := all.await(named("sessions", "created")); e.Session.ID != "mine" {
		t.Errorf("created: %+v", e)
	}
	all.await(inState("mine", "idle"))
	s.message(t, "mine", "permission")
	seen := all.awaitBoth("waiting", "requested")
	if w := seen["waiting"].Session; w.WaitingSince == 0 || w.Title != "permission" {
		t.Errorf("waiting: %+v", w)
	}
	request := seen["requested"].Permission
	if request.Session != "mine" {
		t.Errorf("requested: %s", seen["requested"].data)
	}
	before := all.last

	s.post(t, "/v1/sessions/mine/permissions/"+request.ID+"/reply", `{"reply":"once"}`).want(t, http.StatusNoContent)
	seen = all.awaitBoth("answered", "idle")
	if e := seen["answered"]; e.ID != request.ID || e.Outcome != "selected" || !strings.Contains(e.data, `"sessionId":"mine"`) {
		t.Errorf("answered: %s", e.data)
	}
	s.do(t, call{method: http.MethodPatch, path: "/v1/sessions/mine", body: `{"title":"Named"}`, kind: "application/json"}).want(t, http.StatusNoContent)
	all.await(func(e allEvent) bool { return e.Session.Title == "Named" })
	s.post(t, "/v1/sessions/mine/terminate", "").want(t, http.StatusNoContent)
	all.await(named("sessions", "ended"))

	// A client that was away when the request was answered learns what holds now.
	again := s.followAll(t, "topics=sessions,permissions", before)
	if e := again.await(named("reset", "reset")); e.Topic != "permissions" {
		t.Errorf("reset: %s", e.data)
	}
	if e := again.await(named("sessions", "ended")); e.Session.ID != "mine" || e.Session.Title != "Named" {
		t.Errorf("ended: %s", e.data)
	}
	// A new client gets the requests that are open.
	s.post(t, "/v1/sessions/other", fmt.Sprintf(`{"agent":"mock","directory":%q}`, dir)).want(t, 200)
	s.message(t, "other", "permission")
	again.await(named("permissions", "requested"))
	if e := s.followAll(t, "topics=permissions", "").next(); e.Type != "requested" || e.Permission.Session != "other" {
		t.Errorf("first event: %s", e.data)
	}
	s.post(t, "/v1/sessions/other/cancel", "").want(t, http.StatusNoContent)
	if e := again.await(named("permissions", "answered")); e.Outcome != "cancelled" {
		t.Errorf("answered: %s", e.data)
	}
}

// TestAllEventsOfOneSession has the events of a session with the same numbers as the list, and
// continues after the last one, also with another server.
func TestAllEventsOfOneSession(t *testing.T) {
	t.Parallel()
	state, dir := t.TempDir(), t.TempDir()
	var last string
	var count int64
	t.Run("first server", func(t *testing.T) {
		s := serve(t, Config{StateDir: state})
		s.post(t, "/v1/sessions/mine", fmt.Sprintf(`{"agent":"mock","directory":%q}`, dir)).want(t, 200)
		s.turn(t, "mine", "hello")
		all := s.followAll(t, "topics=session:mine&include_raw=true", "")
		s.message(t, "mine", "demo")
		var got []allEvent
		for len(got) == 0 || got[len(got)-1].Type != "turn.ended" {
			got = append(got, all.next())
		}
		var page struct{ Events []universalEvent }
		decode(t, s.do(t, call{path: fmt.Sprintf("/v1/sessions/mine/events?offset=%d", got[0].Sequence-1)}).want(t, 200).body, &page)
		if len(page.Events) < len(got) || len(got) < 10 {
			t.Fatalf("%d events, the list has %d; the first is %s", len(got), len(page.Events), got[0].data)
		}
		raws := 0
		for i, e := range got {
			if string(e.Raw) != "null" {
				raws++
			}
			if e.Sequence != page.Events[i].Sequence || e.Type != page.Events[i].Type || e.event != "session" {
				t.Errorf("event %d is %s, in the list %+v", i, e.data, page.Events[i])
			}
		}
		if raws == 0 {
			t.Error("no event has the agent's own message")
		}
		last, count = got[4].id, got[4].Sequence
		if e := s.followAll(t, "topics=session:mine&after="+url.QueryEscape(last), "").next(); e.Sequence != count+1 || string(e.Raw) != "null" {
			t.Errorf("after %d: %s", count, e.data)
		}
	})
	s := serve(t, Config{StateDir: state})
	if e := s.followAll(t, "topics=session:mine,processes", last).await(func(e allEvent) bool { return e.event == "session" }); e.Sequence != count+1 {
		t.Errorf("after the restart and %d: %s", count, e.data)
	}
	far := s.followAll(t, "topics=session:mine", "session%3Amine=999999")
	if e := far.next(); e.event != "reset" || e.Topic != "session:mine" {
		t.Errorf("after an event that there is not: %s", e.data)
	}
	s.do(t, call{path: "/v1/events?topics=session:absent"}).problem(t, 404, "session_not_found")
}

// TestAllEventsOfProcesses has the changes of processes and configuration, which a client that
// resumes gets as well, unless the server is another one.
func TestAllEventsOfProcesses(t *testing.T) {
	t.Parallel()
	s, dir := serve(t, Config{}), t.TempDir()
	all := s.followAll(t, "topics=processes,config", "")
	id := s.post(t, "/v1/processes", `{"command":"sh","args":["-c","exit 3"]}`).want(t, 200).json(t)["id"].(string)
	if e := all.await(named("processes", "created")); e.Process.ID != id || e.Process.Status != "running" {
		t.Errorf("created: %s", e.data)
	}
	before := all.last
	if e := all.await(named("processes", "exited")); e.Process.ID != id || e.Process.Status != "exited" || !strings.Contains(e.data, `"exitCode":3`) {
		t.Errorf("exited: %s", e.data)
	}
	s.put(t, configPath("mcp", dir, "tools"), `{"type":"local","command":"x"}`).want(t, http.StatusNoContent)
	s.do(t, call{method: http.MethodDelete, path: configPath("mcp", dir, "tools")}).want(t, http.StatusNoContent)
	eventually(t, "the process is removed", func() bool {
		return s.do(t, call{method: http.MethodDelete, path: "/v1/processes/" + id}).StatusCode == http.StatusNoContent
	})
	again := s.followAll(t, "topics=processes,config", before)
	for _, stream := range []*allStream{all, again} {
		var got []string
		for len(got) == 0 || got[len(got)-1] != "processes deleted" {
			e := stream.next()
			got = append(got, e.event+" "+e.Type)
			if e.event == "config" && (e.Name != "tools" || e.Kind != "mcp" || !strings.Contains(e.data, dir)) {
				t.Errorf("config: %s", e.data)
			}
		}
		want := "config updated, config deleted, processes deleted"
		if stream == again {
			want = "processes exited, " + want
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("events %s, want %s", text, want)
		}
	}
	other := s.followAll(t, "topics=processes,config", "changes=OTHER-5")
	if a, b := other.next(), other.next(); a.Topic != "processes" || b.Topic != "config" || a.event != "reset" || b.event != "reset" {
		t.Errorf("with the position of another server: %s, %s", a.data, b.data)
	}
	for query, code := range map[string]int{"topics=desktop,weather": 400, "topics=session:": 400, "topics=" + strings.Repeat("session:x,", 40): 400} {
		if p := s.do(t, call{path: "/v1/events?" + query}).problem(t, code, "invalid_request"); p["field"] != "topics" || !strings.Contains(p["detail"].(string), "permissions") {
			t.Errorf("%s: %v", query, p)
		}
	}
	s.do(t, call{path: "/v1/events", header: map[string]string{"Last-Event-ID": "%zz"}}).problem(t, 400, "invalid_request")
}

// TestAllEventsOfDesktops follows two desktops, and resumes after a stop and a start.
func TestAllEventsOfDesktops(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg")
	s := startReal(t, Config{}, `{"width":320,"height":240}`)
	all := s.followAll(t, "topics=desktop,recordings&types=action,control&holder=page", "")
	if e := all.next(); e.Type != "status" || e.Desktop != "main" || e.State != "active" {
		t.Fatalf("first event: %s", e.data)
	}
	s.post(t, "/v1/desktops", `{"id":"other","width":320,"height":240}`).want(t, 201)
	all.await(func(e allEvent) bool { return e.Type == "status" && e.Desktop == "other" && e.State == "active" })
	click := func(desktop string, x int) {
		t.Helper()
		s.post(t, "/v1/desktops/"+desktop+"/mouse/click", fmt.Sprintf(`{"x":%d,"y":6}`, x)).want(t, 200)
	}
	clicked := func(desktop string, x int) func(allEvent) bool {
		return func(e allEvent) bool {
			return e.Type == "action" && e.Desktop == desktop && e.Action.At != nil && e.Action.At.X == x
		}
	}
	click("other", 5)
	click("main", 7)
	got := map[string]bool{}
	for len(got) < 2 {
		e := all.await(named("desktop", "action"))
		got[e.Desktop] = clicked("other", 5)(e) || clicked("main", 7)(e)
	}
	if !got["main"] || !got["other"] {
		t.Errorf("clicks: %v", got)
	}
	before := all.last

	click("other", 9)
	click("main", 11)
	rec := s.post(t, mainPath+"/recording/start", `{"fps":5}`).want(t, 200).json(t)["id"].(string)
	if e := all.await(named("recordings", "recording")); e.Recording.ID != rec || e.Recording.Status != "recording" {
		t.Errorf("recording: %s", e.data)
	}
	again := s.followAll(t, "topics=desktop,recordings&types=action", before)
	events := map[string]bool{}
	for !events["main 11"] || !events["other 9"] || !events["reset recordings"] {
		switch e := again.next(); {
		case e.Type == "action":
			events[fmt.Sprintf("%s %d", e.Desktop, e.Action.At.X)] = true
		case e.event == "reset":
			events["reset "+e.Topic] = true
		}
	}
	if events["main 7"] || events["other 5"] || events["reset desktop"] {
		t.Errorf("events after the last one: %v", events)
	}

	// The desktop is another one after its stop and start.
	s.post(t, "/v1/desktop/stop", "").want(t, 200)
	again.await(func(e allEvent) bool { return e.Type == "status" && e.State == "inactive" })
	s.post(t, "/v1/desktop/start", `{"width":320,"height":240}`).want(t, 200)
	again.await(func(e allEvent) bool { return e.Type == "status" && e.State == "active" })
	click("main", 13)
	again.await(clicked("main", 13))
	if e := s.followAll(t, "topics=desktop", before).await(named("reset", "reset")); e.Topic != "desktop" || e.Desktop != "main" {
		t.Errorf("after the position of the start before: %s", e.data)
	}
	s.do(t, call{method: http.MethodDelete, path: "/v1/desktops/other"}).want(t, http.StatusNoContent)
	again.await(func(e allEvent) bool { return e.Type == "status" && e.Desktop == "other" && e.State == "deleted" })
	if strings.Contains(again.last, "other") || !strings.Contains(again.last, "main") {
		t.Errorf("the id after the deletion: %s", again.last)
	}
}

// TestAllEventsOfGuests: tokens for desktops get the events of their desktops alone, and never
// what a person types.
func TestAllEventsOfGuests(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":320,"height":240}`)
	s.post(t, "/v1/desktops", `{"id":"other","width":320,"height":240}`).want(t, 201)
	s.post(t, mainPath+"/mouse/click", `{"x":1,"y":1}`).want(t, 200) // before the token
	_, wide := s.token(t, `{"scope":"view"}`)
	_, narrow := s.token(t, `{"scope":"control","desktop":"other"}`)
	guest := s.followAll(t, "access_token="+wide, "")
	one := s.followAll(t, "access_token="+narrow, "")
	if e := one.next(); e.Desktop != "other" || e.Type != "status" {
		t.Errorf("first event: %s", e.data)
	}
	typed := s.do(t, call{
		method: http.MethodPost, path: mainPath + "/keyboard/type", body: `{"text":"hunter2"}`, kind: "application/json",
		header: map[string]string{"Deskhand-Typing": "1"},
	})
	typed.want(t, 200)
	s.post(t, "/v1/sessions/mine", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	s.post(t, "/v1/desktops/other/mouse/click", `{"x":9,"y":9}`).want(t, 200)
	if e := one.await(func(e allEvent) bool { return e.Type == "action" || e.Desktop != "other" }); e.Action.Name != "click" || e.Desktop != "other" {
		t.Errorf("of the other desktop: %s", e.data)
	}
	e := guest.await(func(e allEvent) bool {
		if strings.Contains(e.data, "hunter2") || e.event != "desktop" || e.Action.At != nil && e.Action.At.X == 1 {
			t.Errorf("the guest gets %s", e.data)
		}
		return e.Action.Name == "type"
	})
	if e.Action.Length != 7 {
		t.Errorf("typing: %s", e.data)
	}
	for _, token := range []string{wide, narrow} {
		for _, topics := range []string{"sessions", "session:mine", "desktop,permissions", "processes", "config"} {
			s.do(t, call{path: "/v1/events?topics=" + topics + "&access_token=" + token, anon: true}).problem(t, 403, "permission_denied")
		}
	}
	s.do(t, call{path: "/v1/events", anon: true}).problem(t, 401, "token_invalid")
	if a := s.do(t, call{method: http.MethodHead, path: "/v1/events"}).want(t, 200); len(a.body) > 0 {
		t.Error("HEAD has a body")
	}
}

// TestAllEventsReleaseControl: the end of a stream ends the control of its holder.
func TestAllEventsReleaseControl(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":320,"height":240}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.follow(ctx, t, "/v1/events?topics=desktop&holder=page", nil)
	take := call{method: http.MethodPost, path: mainPath + "/control/take", body: `{}`, kind: "application/json", header: map[string]string{"Deskhand-Actor": "page"}}
	if got := s.do(t, take).want(t, 200).json(t); got["taken"] != true {
		t.Fatal(got)
	}
	cancel()
	eventually(t, "control is free", func() bool { return s.get(t, mainPath+"/control").want(t, 200).json(t)["taken"] == false })
}
