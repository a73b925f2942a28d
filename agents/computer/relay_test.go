package computer_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
)

// TestRelay: a client on stdio uses the desktop of an HTTP server, which stops and starts
// again.
func TestRelay(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 800, Height: 600}})
	s, err := computer.NewServer(d, computer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	events := d.Subscribe(0)
	defer events.Close()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	})
	web := httptest.NewServer(handler)
	address := web.Listener.Addr().String()
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	done := make(chan error, 1)
	relay := computer.Relay{Endpoint: web.URL, Header: http.Header{"Authorization": {"Bearer secret"}}}
	go func() { done <- relay.Run(context.Background(), theirIn, theirOut) }()
	t.Cleanup(func() {
		_ = in.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	a := connectTo(t, &mcp.IOTransport{Reader: out, Writer: in})
	list, err := a.session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) < 10 {
		t.Fatal(err)
	}
	wants(t, a.must("left_click", args{"coordinate": []int{300, 200}}), "Clicked at [300, 200]")
	if p := pointer(t, d); p != (desktop.Point{X: 300, Y: 200}) {
		t.Error(p)
	}
	for e := range events.Events() {
		if e.Type == desktop.EventAction {
			if e.Action.Actor.Name != "tester" {
				t.Errorf("%+v acts", e.Action.Actor)
			}
			break
		}
	}
	a.refuses("click", args{"coordinate": []int{800, 0}}, "outside of the screenshot")
	if _, err := a.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fly"}); err == nil {
		t.Error("there is a tool to fly")
	}
	web.Close()
	a.refuses("screenshot", nil, "did not answer")
	again := httptest.NewUnstartedServer(handler)
	again.Listener.Close()
	if again.Listener, err = listen(t, address); err != nil {
		t.Fatal(err)
	}
	again.Start()
	t.Cleanup(again.Close)
	a.must("screenshot", nil)
}

// TestRelayTellsProblems: the client gets the detail of the server's problem.
func TestRelayTellsProblems(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"status":409,"detail":"Desktop runtime has not been started"}`)
	}))
	t.Cleanup(web.Close)
	a := connectToRelay(t, web.URL)
	a.refuses("screenshot", nil, "Desktop runtime has not been started")
	if _, err := a.session.ListTools(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "has not been started") {
		t.Errorf("ListTools = %v", err)
	}
}

// connectToRelay connects an agent to a relay of an endpoint. The relay ends with the test.
func connectToRelay(t *testing.T, endpoint string) *agent {
	t.Helper()
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- computer.Relay{Endpoint: endpoint}.Run(context.Background(), theirIn, theirOut) }()
	t.Cleanup(func() {
		_ = in.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return connectTo(t, &mcp.IOTransport{Reader: out, Writer: in})
}

// TestRelayKeepsTrace forwards the trace that a call names, and nothing else of its _meta.
func TestRelayKeepsTrace(t *testing.T) {
	t.Parallel()
	got := make(chan mcp.Meta, 1)
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "x", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got <- r.Params.Meta
		return &mcp.CallToolResult{}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	t.Cleanup(web.Close)
	a := connectToRelay(t, web.URL)
	const parent, state = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "v=1"
	if _, err := a.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "x", Meta: mcp.Meta{"traceparent": parent, "tracestate": state, "other": "secret"}}); err != nil {
		t.Fatal(err)
	}
	if meta := <-got; meta["traceparent"] != parent || meta["tracestate"] != state || meta["other"] != nil {
		t.Errorf("_meta is %v", meta)
	}
}
