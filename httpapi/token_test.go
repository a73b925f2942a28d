package httpapi

import (
	"net/http"
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// token makes a token and returns its id and value.
func (s *testServer) token(t *testing.T, body string) (id, value string) {
	t.Helper()
	got := s.post(t, "/v1/tokens", body).want(t, 200).json(t)
	return got["id"].(string), got["token"].(string)
}

func TestTokenScopes(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	s.post(t, "/v1/desktops", `{"id":"other","width":320,"height":240}`).want(t, 201)
	values := map[string]string{}
	for _, scope := range []string{"view", "control", "agent", "admin"} {
		_, values[scope] = s.token(t, `{"scope":"`+scope+`"}`)
	}
	_, values["main only"] = s.token(t, `{"scope":"control","desktop":"main","ttl":3600,"name":"ann"}`)
	const move, launch = `{"x":5,"y":6}`, `{"app":"true"}`
	for _, tt := range []struct {
		call call
		who  string // scopes that may
	}{
		{call{path: "/v1/health"}, "view control agent admin main only"},
		{call{path: "/v1/desktop/screenshot"}, "view control agent admin main only"},
		{call{path: "/v1/desktop/windows"}, "view control agent admin main only"},
		{call{path: "/v1/desktop/stream/status"}, "view control agent admin main only"},
		{call{path: "/v1/desktops/other/screenshot"}, "view control agent admin"},
		{call{path: "/v1/desktop/clipboard"}, "control agent admin main only"},
		{call{path: "/v1/desktop/mouse/move", body: move}, "control agent admin main only"},
		{call{path: "/v1/desktops/other/mouse/move", body: move}, "control agent admin"},
		{call{path: "/v1/desktops/another-that-is-not/windows"}, "view control agent admin"},
		{call{path: "/v1/desktop/launch", body: launch}, "agent admin"},
		{call{path: "/v1/desktops"}, "admin"},
		{call{path: "/v1/desktop/start", body: "{}"}, "admin"},
		{call{path: "/v1/tokens"}, "admin"},
		{call{path: "/v1/processes"}, "admin"},
		{call{path: "/v1/processes/run", body: `{"command":"true"}`}, "admin"},
	} {
		for who, value := range values {
			c := tt.call
			c.header = map[string]string{"Authorization": "Bearer " + value}
			may := strings.Contains(tt.who, who) && (who != "main only" || !strings.Contains(c.path, "other"))
			a := s.do(t, c)
			if who == "main only" && !may && strings.Contains(c.path, "other") && !strings.Contains(string(a.body), "for the desktop main only") {
				t.Errorf("%s with a token for %s: %s", c.path, who, a.body)
			}
			if got := a.StatusCode != 403; got != may || a.StatusCode == 401 {
				t.Errorf("%s %s with a token for %s: %d %s", a.Request.Method, c.path, who, a.StatusCode, a.body)
			}
		}
	}
}

func TestTokenLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, Config{StateDir: dir})
	id, value := s.token(t, `{"scope":"view","name":"ann"}`)
	with := func(s *testServer, value string) answer {
		return s.do(t, call{path: "/v1/health", header: map[string]string{"Authorization": "Bearer " + value}})
	}
	with(s, value).want(t, 200)
	with(s, value+"x").problem(t, 401, "token_invalid")
	list := s.get(t, "/v1/tokens").want(t, 200)
	if strings.Contains(string(list.body), value) || !strings.Contains(string(list.body), id) {
		t.Errorf("list: %s", list.body)
	}
	_, short := s.token(t, `{"scope":"view","ttl":1}`)
	with(s, short).want(t, 200)
	eventually(t, "a token's end", func() bool { return with(s, short).StatusCode == 401 })

	// A link outlives the server.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = serve(t, Config{StateDir: dir})
	with(s, value).want(t, 200)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = serve(t, Config{StateDir: dir}) // whose first request about tokens is the end of one
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	with(s, value).problem(t, 401, "token_invalid")
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).problem(t, 404, "not_found")

	for body, field := range map[string]string{
		`{}`:                                   "scope",
		`{"scope":"root"}`:                     "scope",
		`{"scope":"view","ttl":0}`:             "ttl",
		`{"scope":"view","ttl":99999999999}`:   "ttl",
		`{"scope":"admin","desktop":"main"}`:   "desktop",
		`{"scope":"view","desktop":"../main"}`: "desktop",
		`{"scope":"view","name":"<b>"}`:        "name",
	} {
		a := s.post(t, "/v1/tokens", body)
		if a.StatusCode != 400 && a.StatusCode != 422 || !strings.Contains(string(a.body), field) {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
		}
	}
}

// TestRevokedTokensCutOff: those who watch with a token go with it.
func TestRevokedTokensCutOff(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	id, value := s.token(t, `{"scope":"view","name":"ann"}`)
	conn := s.dial(t, "/v1/desktop/stream/signaling?access_token="+value, http.Header{})
	signal(t, conn, "system/init")
	if err := conn.WriteJSON(map[string]any{"event": "signal/request"}); err != nil {
		t.Fatal(err)
	}
	signal(t, conn, "signal/provide")
	viewers := s.get(t, "/v1/desktop/stream/status").want(t, 200).json(t)["viewers"].([]any)
	if v := viewers[0].(map[string]any); v["viewOnly"] != true || v["name"] != "ann" {
		t.Errorf("viewer = %v", v)
	}
	events := s.follow(t.Context(), t, "/v1/desktop/events?access_token="+value, nil)
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	deadline := time.After(time.Minute)
	for open := true; open; {
		select {
		case _, open = <-events:
		case <-deadline:
			t.Fatal("an event stream goes on")
		}
	}
	for {
		if _, _, err := conn.ReadMessage(); err != nil {
			break
		}
	}
	eventually(t, "the viewer is gone", func() bool {
		return s.get(t, "/v1/desktop/stream/status").json(t)["viewers"] == nil
	})
}

// TestTokenTellsWhatItAllows holds that the answer to a request for a token says
// what is given away with it.
func TestTokenTellsWhatItAllows(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	for _, menu := range []bool{false, true} {
		s := serve(t, Config{DesktopMenu: menu})
		for scope, want := range map[string]string{"view": "no input", "control": "shell", "agent": "shell", "admin": "Everything"} {
			got := s.post(t, "/v1/tokens", `{"scope":"`+scope+`"}`).want(t, 200).json(t)
			allows, _ := got["allows"].(string)
			if !strings.Contains(allows, want) || scope != "view" && !strings.Contains(allows, "as user "+me.Username) {
				t.Errorf("%s: %q, want %q", scope, allows, want)
			}
			if scope == "control" && strings.Contains(allows, "no program can be started") == menu {
				t.Errorf("menu %t: %q", menu, allows)
			}
		}
	}
}
