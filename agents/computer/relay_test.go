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
	names := make(chan string, 1000)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		names <- r.Header.Get("Actor-Name")
		s.ServeHTTP(w, r)
	})
	web := httptest.NewServer(handler)
	address := web.Listener.Addr().String()
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	done := make(chan error, 1)
	relay := computer.Relay{Endpoint: web.URL, Header: http.Header{"Authorization": {"Bearer secret"}}, ActorHeader: "Actor-Name"}
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
	if name := <-names; name != "tester" {
		t.Errorf("%q acts", name)
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
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- computer.Relay{Endpoint: web.URL}.Run(context.Background(), theirIn, theirOut) }()
	t.Cleanup(func() {
		_ = in.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	a := connectTo(t, &mcp.IOTransport{Reader: out, Writer: in})
	a.refuses("screenshot", nil, "Desktop runtime has not been started")
	if _, err := a.session.ListTools(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "has not been started") {
		t.Errorf("ListTools = %v", err)
	}
}
