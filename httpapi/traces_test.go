package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/otlp"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testotlp"
)

// traced starts a collector and a server with a desktop that sends its spans there. flush has
// them sent.
func traced(t *testing.T, cfg Config) (s *testServer, r *testotlp.Receiver, flush func()) {
	t.Helper()
	r = testotlp.Start(t)
	p, err := otlp.Start(t.Context(), otlp.Config{Endpoint: r.URL, Version: "v1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	within := func(f func(context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := f(ctx); err != nil {
			t.Errorf("send spans: %v", err)
		}
	}
	t.Cleanup(func() { within(p.Close) })
	cfg.TracerProvider = p
	s = startReal(t, cfg, `{"width":640,"height":480}`)
	return s, r, func() { t.Helper(); within(p.Flush) }
}

// traceHeader returns the headers of a client that works on a trace.
func traceHeader(id string) map[string]string {
	return map[string]string{"traceparent": "00-" + id + "-00f067aa0ba902b7-01"}
}

// traceTree returns a trace as the test wants it: without the name of the request, which differs.
func traceTree(r *testotlp.Receiver, id string) string {
	return "\n" + r.Tree(id, "deskhand.request", "http.request.method", "http.route", "mcp.method.name", "gen_ai.tool.name")
}

func sortedLines(text string) []string {
	return slices.Sorted(strings.Lines(text))
}

const (
	firstTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	secondTrace = "4bf92f3577b34da6a3ce929d0e0e4737"
)

// TestTraces follows calls of a client to the input and the picture that they led to.
func TestTraces(t *testing.T) {
	t.Parallel()
	log := &testlog.Buffer{}
	s, r, flush := traced(t, Config{Logger: slog.New(slog.NewJSONHandler(log, nil)), AccessLog: true})
	header := traceHeader(firstTrace)
	header["X-Request-Id"] = "mine"
	clicked := s.do(t, call{path: mainPath + "/mouse/click", body: `{"x":20,"y":30}`, header: header}).want(t, 200)
	s.do(t, call{path: mainPath + "/screenshot?settleMs=50", header: traceHeader(firstTrace)}).want(t, 200)
	s.do(t, call{path: mainPath + "/keyboard/press", body: `{"key":"no such key"}`, header: traceHeader(firstTrace)}).want(t, 400)
	s.do(t, call{
		path: mainPath + "/actions", header: traceHeader(secondTrace),
		body: `{"actions":[{"type":"click","x":5,"y":5},{"type":"type","text":"typedsecret"},{"type":"press","key":"F1"}],"settle":{"ms":50},"observe":{"screenshot":{}}}`,
	}).want(t, 200)
	flush()
	want := `
POST /v1/desktop/mouse/click deskhand.desktop=main http.response.status_code=200
  desktop input deskhand.action=click
GET /v1/desktop/screenshot deskhand.desktop=main http.response.status_code=200
  desktop settle
  desktop screenshot
POST /v1/desktop/keyboard/press deskhand.desktop=main http.response.status_code=400
`
	if diff := cmp.Diff(want, traceTree(r, firstTrace)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	want = `
POST /v1/desktop/actions deskhand.desktop=main http.response.status_code=200
  desktop input deskhand.action=click
  desktop input deskhand.action=type
  desktop input deskhand.action=press
  desktop settle
  desktop screenshot
`
	if diff := cmp.Diff(want, traceTree(r, secondTrace)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}

	// Requests without a token, probes and scrapes have no span: strangers can make none, and
	// probes do not make one every few seconds.
	before := len(r.Traces())
	s.do(t, call{path: mainPath + "/screenshot", anon: true, header: traceHeader("4bf92f3577b34da6a3ce929d0e0e4738")}).want(t, 401)
	s.get(t, "/v1/health").want(t, 200)
	s.get(t, "/readyz").want(t, 200)
	s.get(t, "/metrics").want(t, 200)
	s.get(t, mainPath+"/mouse/position").want(t, 200) // a trace of its own
	flush()
	if got := len(r.Traces()) - before; got != 1 {
		t.Errorf("%d further traces: %q", got, r.Traces())
	}
	// A client of MCP names its trace in the message.
	session, err := s.mcpClient(t, "", s.Token(), "")
	if err != nil {
		t.Fatal(err)
	}
	const thirdTrace = "4bf92f3577b34da6a3ce929d0e0e4739"
	meta := mcp.Meta{"traceparent": traceHeader(thirdTrace)["traceparent"]}
	for _, tool := range []string{"screenshot", "secrettool"} {
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta, Name: tool, Arguments: map[string]any{}}); err != nil {
			t.Log(tool, err) // there is no such tool
		}
	}
	flush()
	want = `
tools/call screenshot
  desktop settle
  desktop screenshot
tools/call unknown failed
`
	if diff := cmp.Diff(want, traceTree(r, thirdTrace)); diff != "" {
		t.Errorf("MCP (-want +got):\n%s", diff)
	}
	for _, secret := range []string{"typedsecret", "secrettool", s.Token(), "no such key", "Bearer"} {
		if r.Contains(secret) {
			t.Errorf("spans have %q", secret)
		}
	}

	// The log has the ids of the answer and of the trace.
	if id := clicked.Header.Get("X-Request-Id"); id != "mine" {
		t.Errorf("X-Request-Id is %q", id)
	}
	line := logLine(t, log, "/mouse/click")
	if line["request"] != "mine" || line["trace_id"] != firstTrace {
		t.Errorf("line of the click: %v", line)
	}
	if line := logLine(t, log, "/readyz"); line["request"] == "" || line["trace_id"] != nil {
		t.Errorf("line of the probe: %v", line)
	}
}

// logLine returns the line of the log about a request.
func logLine(t *testing.T, log *testlog.Buffer, path string) (entry map[string]any) {
	t.Helper()
	eventually(t, "the request is logged", func() bool {
		for line := range strings.Lines(log.String()) {
			entry = nil
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatal(err)
			}
			if at, _ := entry["url"].(string); strings.Contains(at, path) {
				return true
			}
		}
		return false
	})
	return entry
}

// TestTracesOfAgents follows a prompt to the tools that the agent calls, and back.
func TestTracesOfAgents(t *testing.T) {
	t.Parallel()
	for name, noToken := range map[string]bool{"token": false, "no token": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r, flush := traced(t, Config{NoToken: noToken})
			s.post(t, "/v1/sessions/acts", fmt.Sprintf(`{"agent":"mock","directory":%q,"desktop":"main"}`, t.TempDir())).want(t, 200)
			s.do(t, call{path: "/v1/sessions/acts/messages", body: `{"message":"desktop 160 120"}`, header: traceHeader(firstTrace)}).want(t, 204)
			permission := ""
			eventually(t, "the agent asks", func() bool {
				var open struct{ Permissions []struct{ ID string } }
				if err := json.Unmarshal(s.get(t, "/v1/permissions").want(t, 200).body, &open); err != nil {
					t.Fatal(err)
				}
				if len(open.Permissions) == 1 {
					permission = open.Permissions[0].ID
				}
				return permission != ""
			})
			s.post(t, "/v1/sessions/acts/permissions/"+permission+"/reply", `{"reply":"once"}`).want(t, 204)
			eventually(t, "the turn ends", func() bool {
				flush()
				return strings.Contains(r.Tree(firstTrace), "agent turn")
			})
			want := `
POST /v1/sessions/{sessionId}/messages http.response.status_code=204
  agent turn acp.stop_reason=end_turn deskhand.agent=mock
    agent tool call acp.tool.kind=read
    POST /v1/mcp deskhand.desktop=main http.response.status_code=200
    POST /v1/mcp deskhand.desktop=main http.response.status_code=200
    POST /v1/mcp deskhand.desktop=main http.response.status_code=200
      tools/call screenshot
        desktop settle
        desktop screenshot
    agent tool call acp.tool.kind=other
    agent question acp.method=session/request_permission
    POST /v1/mcp deskhand.desktop=main http.response.status_code=200
    POST /v1/mcp deskhand.desktop=main http.response.status_code=200
      tools/call click
        desktop input deskhand.action=click
        desktop settle
        desktop screenshot
`
			// The agent's calls and what it tells of them arrive on two ways, in either order.
			if diff := cmp.Diff(sortedLines(want), sortedLines(traceTree(r, firstTrace))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, secret := range []string{"160", "I will look", "acts", t.TempDir()} {
				if r.Contains(secret) {
					t.Errorf("spans have %q", secret)
				}
			}
		})
	}
}

// TestTracesOff makes a server without traces do nothing for them.
func TestTracesOff(t *testing.T) { // not parallel, as it counts allocations
	s := serve(t, Config{})
	ctx := t.Context()
	o := desktop.Observed{Operation: desktop.OperationInput, Action: desktop.ActionClick, Began: time.Now()}
	if n := testing.AllocsPerRun(100, func() { s.operation(ctx, o) }); n != 0 {
		t.Errorf("an operation makes %v allocations", n)
	}
}
