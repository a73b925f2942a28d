package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// withToken sends a token, and a name if there is one.
type withToken struct {
	base        http.RoundTripper
	token, name string
}

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	if t.name != "" {
		r.Header.Set("Deskhand-Actor", t.name)
	}
	return t.base.RoundTrip(r)
}

// mcpClient is a client of the published SDK for Go.
func (s *testServer) mcpClient(t *testing.T, query, token, name string) (*mcp.ClientSession, error) {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "client-of-tests", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.url + mcpPath + query, MaxRetries: -1,
		HTTPClient: &http.Client{Transport: withToken{s.client.Transport, token, name}},
	}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func callTool(t *testing.T, session *mcp.ClientSession, name string, args map[string]any) (text string, images int, failed bool) {
	t.Helper()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			text += c.Text
		case *mcp.ImageContent:
			images++
		}
	}
	return text, images, r.IsError
}

// TestMCP uses a desktop as an agent does that was given the URL and a token.
func TestMCP(t *testing.T) {
	t.Parallel()
	for way, open := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{})
			requireDesktop(t)
			s.post(t, "/v1/desktop/start", `{"width":1440,"height":900}`).want(t, http.StatusOK)
			events := s.desktop(t).Subscribe(0)
			defer events.Close()
			token := s.post(t, "/v1/tokens", `{"scope":"agent","desktop":"main","name":"robot"}`).json(t)["token"].(string)
			for i, who := range []struct{ query, token, name, want string }{
				{"", token, "", "robot"}, {"?desktop=main", s.Token(), "", "client-of-tests"}, {"", s.Token(), "Ann", "Ann"},
			} {
				session, err := s.mcpClient(t, who.query, who.token, who.name)
				if err != nil {
					t.Fatal(err)
				}
				text, images, failed := callTool(t, session, "click", map[string]any{"coordinate": []int{100 + i, 50}})
				if failed || images != 1 || !strings.Contains(text, "1356x848") {
					t.Errorf("%v: %s, %d images", failed, text, images)
				}
				for e := range events.Events() {
					if e.Type != desktop.EventAction || e.Action.Name != "click" {
						continue
					}
					if a := e.Action.Actor; a.Kind != desktop.ActorAgent || a.Name != who.want {
						t.Errorf("%+v acted instead of %s", a, who.want)
					}
					break
				}
			}
		})
	}
}

// TestMCPActors: tokens without a name are different actors, whatever their clients call
// themselves: each has its own last picture.
func TestMCPActors(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	requireDesktop(t)
	s.post(t, "/v1/desktop/start", `{}`).want(t, http.StatusOK)
	var sessions [2]*mcp.ClientSession
	for i := range sessions {
		_, token := s.token(t, `{"scope":"agent","desktop":"main"}`)
		session, err := s.mcpClient(t, "", token, "")
		if err != nil {
			t.Fatal(err)
		}
		sessions[i] = session
		if text, _, failed := callTool(t, session, "screenshot", nil); failed {
			t.Fatal(text)
		}
	}
	launched := s.post(t, "/v1/desktop/launch", `{"app":"xterm","wait":true}`).want(t, http.StatusOK).json(t)
	if launched["windowId"] == nil {
		t.Skip("xterm has no window")
	}
	var w struct{ X, Y int }
	decode(t, s.get(t, "/v1/desktop/windows/focused").want(t, http.StatusOK).body, &w)
	if text, _, failed := callTool(t, sessions[1], "screenshot", nil); failed {
		t.Fatal(text)
	}
	click := map[string]any{"actions": []any{map[string]any{"action": "left_click", "coordinate": []int{w.X + 50, w.Y + 50}}}}
	if text, _, failed := callTool(t, sessions[0], "computer", click); !failed {
		t.Errorf("a click by the picture of another token: %s", text)
	}
	if text, _, failed := callTool(t, sessions[1], "computer", click); failed {
		t.Errorf("a click by one's own picture: %s", text)
	}
}

func requireDesktop(t *testing.T) {
	t.Helper()
	if missing := desktop.MissingPrograms(); len(missing) > 0 {
		t.Skip("missing: ", missing)
	}
}

func TestMCPRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	tokens := map[string]string{}
	for _, body := range []string{`{"scope":"view"}`, `{"scope":"control"}`, `{"scope":"agent","desktop":"other"}`} {
		a := s.post(t, "/v1/tokens", body).json(t)
		tokens[a["scope"].(string)] = a["token"].(string)
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	post := func(query, token string) answer {
		t.Helper()
		return s.do(t, call{path: mcpPath + query, body: list, header: map[string]string{
			"Authorization": "Bearer " + token, "Accept": "application/json, text/event-stream",
		}})
	}
	for _, tt := range []struct {
		query, token string
		status       int
	}{
		{"", "wrong", 401},
		{"", tokens["view"], 403},
		{"", tokens["control"], 403},
		{"", tokens["agent"], 403},
		{"?desktop=nowhere", s.Token(), 404},
		{"?desktop=other", tokens["agent"], 404},
		{"", s.Token(), 409},
	} {
		if a := post(tt.query, tt.token); a.StatusCode != tt.status || !strings.HasPrefix(a.Header.Get("Content-Type"), rest.ProblemType) {
			t.Errorf("%s with %.10s: %d %s", tt.query, tt.token, a.StatusCode, a.body)
		}
	}
	deep := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + strings.Repeat("[", jsonlimit.MaxDepth) + strings.Repeat("]", jsonlimit.MaxDepth) + `}`
	if p := s.post(t, mcpPath, deep).problem(t, 400, "invalid_request"); !strings.Contains(fmt.Sprint(p["detail"]), "nested too deep") {
		t.Errorf("a message that is nested too deep: %v", p)
	}
	many := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x":[` + strings.Repeat("{},", jsonlimit.MaxBodyValues) + `{}]}}}`
	if p := s.post(t, mcpPath, many).problem(t, 400, "invalid_request"); !strings.Contains(fmt.Sprint(p["detail"]), "has too many values") {
		t.Errorf("a message with many values: %v", p)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if a := s.do(t, call{method: method, path: mcpPath}); a.StatusCode != http.StatusMethodNotAllowed || a.Header.Get("Allow") == "" {
			t.Errorf("%s: %d %s", method, a.StatusCode, a.body)
		}
	}
	// A page of another site may not, whatever name it has for this machine.
	if a := s.do(t, call{path: mcpPath, body: list, anon: true, header: map[string]string{"Origin": "http://evil.example"}}); a.StatusCode != http.StatusForbidden {
		t.Error(a.StatusCode)
	}
}

// TestAgentsReachDesktop gives an agent the desktop as the host of agents does.
func TestAgentsReachDesktop(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{AgentRelay: []string{"/bin/deskhand", "mcp"}})
	process, otherProcess := t.Context(), context.WithoutCancel(t.Context())
	m, err := s.desktops.Mount(t.Context(), process, fleet.Main, "claude")
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Join(m.Env, "\n")
	for _, want := range []string{"DISPLAY=:", "XAUTHORITY=/", "DBUS_SESSION_BUS_ADDRESS=unix:", "ENABLE_TOOL_SEARCH=false"} {
		if !strings.Contains(env, want) {
			t.Errorf("%q is missing in %q", want, env)
		}
	}
	if len(m.Servers) != 2 {
		t.Fatalf("%+v", m.Servers)
	}
	web, relay := m.Servers[0], m.Servers[1]
	token := strings.TrimPrefix(web.Headers["Authorization"], "Bearer ")
	if web.URL != s.url+"/v1/mcp?desktop=main" || relay.Env["DESKHAND_TOKEN"] != token ||
		fmt.Sprint(relay.Args) != "[mcp --endpoint "+s.url+" --desktop main]" {
		t.Errorf("%+v %+v", web, relay)
	}
	session, err := s.mcpClient(t, "?desktop=main", token, "")
	if err != nil {
		t.Fatal(err)
	}
	if text, images, failed := callTool(t, session, "screenshot", nil); failed || images != 1 {
		t.Error(text)
	}
	for path, status := range map[string]int{"/v1/desktop/status": 200, "/v1/processes": 403, "/v1/tokens": 403} {
		if a := s.do(t, call{path: path, header: map[string]string{"Authorization": "Bearer " + token}}); a.StatusCode != status {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
	again, err := s.desktops.Mount(t.Context(), process, fleet.Main, "claude")
	if err != nil || again.Servers[0].Headers["Authorization"] != web.Headers["Authorization"] {
		t.Error("each session has a token of its own", err)
	}
	other, err := s.desktops.Mount(t.Context(), otherProcess, fleet.Main, "codex")
	if err != nil || other.Servers[0].Headers["Authorization"] == web.Headers["Authorization"] {
		t.Error("two agents share a token", err)
	}
	s.tokens.Forget(fleet.Main)
	if a := s.do(t, call{path: "/v1/desktop/status", header: map[string]string{"Authorization": "Bearer " + token}}); a.StatusCode != http.StatusUnauthorized {
		t.Error(a.StatusCode)
	}
	if _, err := s.desktops.Mount(t.Context(), process, "nowhere", "claude"); err == nil {
		t.Error("a desktop that does not exist was mounted")
	}
}

// TestMCPAnswers checks the parts of answers that MCP and HTTP clients rely on.
func TestMCPAnswers(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{Version: "v1.2.3"})
	if _, err := s.StartDesktop(context.Background()); err != nil {
		t.Fatal(err)
	}
	post := func(body string) answer {
		return s.do(t, call{path: mcpPath, body: body, header: map[string]string{"Accept": "application/json, text/event-stream"}})
	}
	init := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`).want(t, 200)
	if !strings.Contains(string(init.body), `"version":"v1.2.3"`) {
		t.Errorf("initialize: %s", init.body)
	}
	for _, body := range []string{"no json", `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`} {
		post(body).problem(t, 400, "invalid_request")
	}
	for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list", "logging/setLevel", "completion/complete"} {
		a := post(`{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":{"level":"info","ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}}`)
		if !strings.Contains(string(a.body), `"code":-32601`) {
			t.Errorf("%s: %d %s", method, a.StatusCode, a.body)
		}
	}
}

// TestMCPOfANewLife has the tools of a desktop that was stopped and started.
func TestMCPOfANewLife(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{})
	for range 2 {
		if _, err := s.StartDesktop(context.Background()); err != nil {
			t.Fatal(err)
		}
		a := s.do(t, call{
			path: mcpPath, body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"cursor_position"}}`,
			header: map[string]string{"Accept": "application/json, text/event-stream"},
		})
		var r struct {
			ID     int
			Result struct{ IsError bool }
		}
		if err := json.Unmarshal(a.body, &r); err != nil || r.ID != 7 || r.Result.IsError {
			t.Errorf("%v %s", err, a.body)
		}
		s.post(t, "/v1/desktop/stop", "{}").want(t, http.StatusOK)
	}
}

// TestAgentSeesDesktop has an agent take a screenshot and click, with the tools
// that it was given, and act in its own name.
func TestAgentSeesDesktop(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{})
	s.post(t, "/v1/sessions/sees", fmt.Sprintf(`{"agent":"mock","directory":%q,"desktop":"main"}`, t.TempDir())).want(t, 200)
	s.turn(t, "sees", "hello")
	events := s.desktop(t).Subscribe(0)
	defer events.Close()
	turn := s.turn(t, "sees", `tool click {"coordinate":[300,200]}`)
	if got := said(turn); !strings.Contains(got, "click completed with 1 image(s)") || !strings.Contains(got, "1356x848") {
		t.Errorf("%q", got)
	}
	for e := range events.Events() {
		if e.Type == desktop.EventAction && e.Action.Name == "click" {
			if a := e.Action.Actor; a.Kind != desktop.ActorAgent || a.Name != "mock" {
				t.Errorf("%+v", a)
			}
			break
		}
	}
}

// TestMCPBatch: a batch is refused, as its answers would be made at the same time, without a bound.
func TestMCPBatch(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":64,"height":64}`)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	accept := map[string]string{"Accept": "application/json, text/event-stream"}
	s.do(t, callTo(call, accept)).want(t, 200)
	for _, body := range []string{"[" + call + "]", " \t\r\n[" + call + "," + call + "]", "["} {
		p := s.do(t, callTo(body, accept)).problem(t, 400, "invalid_request")
		if detail, _ := p["detail"].(string); !strings.Contains(detail, "one by one") {
			t.Errorf("%.20q: problem = %v", body, p)
		}
	}
}

func callTo(body string, header map[string]string) call {
	return call{method: http.MethodPost, path: mcpPath, body: body, kind: "application/json", header: header}
}
