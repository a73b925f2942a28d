package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	for _, scope := range []string{"view", "control", "agent", "supervise", "admin"} {
		_, values[scope] = s.token(t, `{"scope":"`+scope+`"}`)
	}
	_, values["main only"] = s.token(t, `{"scope":"control","desktop":"main","ttl":3600,"name":"ann"}`)
	const move, launch = `{"x":5,"y":6}`, `{"app":"true"}`
	for _, tt := range []struct {
		call call
		who  string // scopes that may
	}{
		{call{path: "/v1/health"}, "view control agent supervise admin main only"},
		{call{path: "/v1/desktop/screenshot"}, "view control agent supervise admin main only"},
		{call{path: "/v1/desktop/windows"}, "view control agent supervise admin main only"},
		{call{path: "/v1/desktop/stream/status"}, "view control agent supervise admin main only"},
		{call{path: "/v1/desktops/other/screenshot"}, "view control agent supervise admin"},
		{call{path: "/v1/desktop/clipboard"}, "control agent supervise admin main only"},
		{call{path: "/v1/desktop/mouse/move", body: move}, "control agent supervise admin main only"},
		{call{path: "/v1/desktops/other/mouse/move", body: move}, "control agent supervise admin"},
		{call{path: "/v1/desktops/another-that-is-not/windows"}, "view control agent supervise admin"},
		{call{path: "/v1/desktop/launch", body: launch}, "agent supervise admin"},
		{call{path: "/v1/desktops"}, "supervise admin"},
		{call{path: "/v1/desktop/start", body: "{}"}, "supervise admin"},
		{call{path: "/v1/desktop/start", body: `{"stateDir":"/nowhere/that/exists"}`}, "admin"},
		{call{path: "/v1/sessions"}, "supervise admin"},
		{call{path: "/v1/agents"}, "supervise admin"},
		{call{path: "/v1/permissions"}, "supervise admin"},
		{call{path: "/v1/events?topics=weather"}, "view control agent supervise admin main only"},
		{call{path: "/v1/events?topics=sessions,weather"}, "supervise admin"},
		{call{path: "/v1/events?topics=processes,weather"}, "admin"},
		{call{path: "/v1/tokens"}, "admin"},
		{call{path: "/v1/secrets"}, "admin"},
		{call{path: "/v1/fs/entries"}, "admin"},
		{call{path: "/v1/acp"}, "admin"},
		{call{path: "/v1/processes"}, "supervise admin"},
		{call{path: "/v1/processes/config"}, "admin"},
		{call{path: "/v1/processes/run", body: `{"command":"true"}`}, "admin"},
		{call{path: "/v1/processes/run", body: `{"command":"true","desktop":"main"}`}, "supervise admin"},
		{call{path: "/v1/processes/run", body: `{"command":"true","desktop":"main","user":"0"}`}, "admin"},
		{call{path: "/v1/processes/run", body: `{"command":"true","desktop":"main","secretEnv":{"A":"B"}}`}, "admin"},
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
	stored, err := os.ReadFile(filepath.Join(dir, "tokens", id+".json"))
	if sum := sha256.Sum256([]byte(value)); err != nil || bytes.Contains(stored, []byte(value)) || !bytes.Contains(stored, []byte(hex.EncodeToString(sum[:]))) {
		t.Errorf("the token's file has %s, %v, want a hash and not the value", stored, err)
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
		`{"scope":"supervise","desktop":"x"}`:  "desktop",
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
		for scope, want := range map[string]string{"view": "no input", "control": "shell", "agent": "shell", "supervise": "No tokens", "admin": "Everything"} {
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

// TestScopesOfRoutes keeps the scope that a token needs for each route in one file.
func TestScopesOfRoutes(t *testing.T) {
	t.Parallel()
	const file = "testdata/scopes.txt"
	s := newServer(t, Config{})
	var lines []string
	described := map[string]bool{}
	for _, op := range s.rest.Routes {
		scope := fmt.Sprint(op.Metadata["deskhand-scope"])
		if len(op.Security) == 0 {
			scope = "open"
		}
		lines = append(lines, fmt.Sprintf("%-9s %-6s %s", scope, op.Method, op.Path))
		described[op.Method+" "+strings.NewReplacer("{", ":", "}", "").Replace(op.Path)] = true
	}
	for _, r := range s.rest.Router().GetRoutes(true) { // pages and files have no operation
		if r.Method != http.MethodHead && !described[r.Method+" "+r.Path] {
			lines = append(lines, fmt.Sprintf("%-9s %-6s %s", "open", r.Method, r.Path))
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the scopes of routes have changed; if that is meant, run go test ./httpapi -run TestScopesOfRoutes -update (-want +got):\n%s", diff)
	}
}

// TestSupervise: a token of the scope supervise starts and uses processes on desktops, and
// gets nothing of the processes of others.
func TestSupervise(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":320,"height":240}`)
	theirs := s.post(t, "/v1/processes", `{"command":"sleep","args":["600"],"desktop":"main"}`).want(t, 200).json(t)["id"].(string)
	id, value := s.token(t, `{"scope":"supervise","name":"ann"}`)
	do := func(method, path, body string) answer {
		t.Helper()
		return s.do(t, call{method: method, path: path, body: body, kind: "application/json", header: map[string]string{"Authorization": "Bearer " + value}})
	}
	own := do("POST", "/v1/processes", `{"command":"cat","desktop":"main"}`).want(t, 200).json(t)["id"].(string)
	if list := string(do("GET", "/v1/processes", "").want(t, 200).body); strings.Contains(list, theirs) || !strings.Contains(list, own) {
		t.Errorf("processes: %s", list)
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""},
		{"GET", "/logs", ""},
		{"POST", "/input", `{"data":"x"}`},
		{"GET", "/terminal/ws", ""},
		{"POST", "/kill", ""},
		{"DELETE", "", ""},
	} {
		do(c.method, "/v1/processes/"+theirs+c.path, c.body).problem(t, 404, "not_found")
	}
	do("POST", "/v1/processes/"+own+"/input", `{"data":"aGVsbG8K"}`).want(t, 200)
	do("POST", "/v1/processes/"+own+"/kill?waitMs=10000", "").want(t, 200)
	do("DELETE", "/v1/processes/"+own, "").want(t, 204)
	do("GET", "/v1/processes/"+own, "").problem(t, 404, "not_found")

	do("POST", "/v1/sessions/mine", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	do("POST", "/v1/sessions/mine/messages", `{"message":"permission"}`).want(t, 204)
	eventually(t, "the request for permission", func() bool {
		return strings.Contains(string(do("GET", "/v1/permissions", "").want(t, 200).body), `"sessionId":"mine"`)
	})
	do("POST", "/v1/sessions/mine/cancel", "").want(t, 204)
	do("POST", "/v1/desktops", `{"id":"other","width":320,"height":240}`).want(t, 201)
	do("DELETE", "/v1/desktops/other", "").want(t, 204)
	do("POST", "/v1/tokens", `{"scope":"view"}`).problem(t, 403, "permission_denied")
	do("DELETE", "/v1/tokens/"+id, "").problem(t, 403, "permission_denied")
	// Its end ends what it follows.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := s.follow(ctx, t, "/v1/events?access_token="+value, nil)
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	for range events {
	}
	do("GET", "/v1/sessions", "").problem(t, 401, "token_invalid")
}

// TestSuperviseLimits: the processes of tokens of the scope supervise have limits of their own.
func TestSuperviseLimits(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":320,"height":240}`)
	limits := s.get(t, "/v1/processes/config").want(t, 200).json(t)
	limits["maxConcurrentProcesses"] = 2
	text, err := json.Marshal(limits)
	if err != nil {
		t.Fatal(err)
	}
	s.post(t, "/v1/processes/config", string(text)).want(t, 200)
	_, value := s.token(t, `{"scope":"supervise","name":"ann"}`)
	const cat = `{"command":"cat","desktop":"main"}`
	guest := call{method: http.MethodPost, path: "/v1/processes", body: cat, kind: "application/json", header: bearer(value)}
	for range 2 {
		s.do(t, guest).want(t, 200)
	}
	s.do(t, guest).problem(t, 409, "conflict")
	own := s.post(t, "/v1/processes", cat).want(t, 200).json(t)["id"].(string)
	s.post(t, "/v1/processes", cat).want(t, 200)
	s.post(t, "/v1/processes", cat).problem(t, 409, "conflict")
	list := s.get(t, "/v1/processes?owner=user&usage=true").want(t, 200).json(t)["processes"].([]any)
	if len(list) != 4 || list[2].(map[string]any)["id"] != own {
		t.Errorf("processes: %v", list)
	}
	first := list[0].(map[string]any)["id"].(string)
	s.post(t, "/v1/processes/"+first+"/kill?waitMs=10000", "").want(t, 200)
	s.do(t, call{method: http.MethodDelete, path: "/v1/processes/" + first}).want(t, 204)
	s.do(t, guest).want(t, 200)
}

// TestSuperviseSeesNoMCPServers checks that tokens of the scope supervise get no headers of MCP
// servers, which may be secret.
func TestSuperviseSeesNoMCPServers(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	_, value := s.token(t, `{"scope":"supervise"}`)
	s.post(t, "/v1/sessions/theirs", fmt.Sprintf(`{"agent":"mock","directory":%q,`+
		`"mcp":{"x":{"type":"remote","url":"http://127.0.0.1:1/","headers":{"Authorization":"hunter2"}}}}`, t.TempDir())).want(t, 200)
	since := url.QueryEscape("sessions=" + strconv.FormatInt(time.Now().Add(-time.Minute).UnixMicro(), 10))
	for path, shown := range map[string]string{"/v1/sessions": "", "/v1/sessions/theirs": "", "/v1/events?topics=sessions&after=" + since: "theirs"} {
		for token, secret := range map[string]bool{value: false, s.Token(): true} {
			var text string
			if shown == "" {
				text = string(s.do(t, call{path: path, header: bearer(token)}).want(t, 200).body)
			} else {
				ctx, cancel := context.WithCancel(t.Context())
				for e := range s.follow(ctx, t, path+"&access_token="+token, nil) {
					if text = e.data; strings.Contains(text, shown) {
						break
					}
				}
				cancel()
			}
			if !strings.Contains(text, "theirs") || strings.Contains(text, "hunter2") != secret {
				t.Errorf("%s, with the server's token %t: %s", path, secret, text)
			}
		}
	}
}
