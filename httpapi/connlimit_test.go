package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// TestConnectionsCountUntilTheyEnd checks that WebSockets, and requests whose
// bodies were not read, count as long as their connections are open. A server without room
// still says that it is alive.
func TestConnectionsCountUntilTheyEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{also: echo, MaxConnections: 2, MaxConnectionsPerAddress: 2})
	s.client.Transport.(*http.Transport).DisableKeepAlives = true
	full := func() bool {
		a := s.try(t.Context(), call{path: "/readyz", anon: true})
		return a.err == nil && a.StatusCode == http.StatusServiceUnavailable
	}
	one, two := s.dial(t, "/v1/test/echo", nil), s.dial(t, "/v1/test/echo", nil)
	for range 3 {
		if !full() {
			t.Fatal("a third connection is let in")
		}
	}
	live := s.do(t, call{path: "/livez", anon: true}).want(t, http.StatusOK)
	if live.Header.Get("Content-Type") != "application/json" || string(live.body) != `{"status":"ok"}` || !live.Close {
		t.Errorf("a refused connection asks whether the server is alive: %v, %s", live.Header, string(live.body))
	}
	repeats(t, one, "still here")
	if err := two.WriteMessage(websocket.TextMessage, []byte("bye")); err != nil {
		t.Fatal(err)
	}
	_, _, _ = two.ReadMessage()
	_ = two.Close()
	eventually(t, "room for another one", func() bool { return !full() })
	// What is left unread of a body keeps its connection open for a while.
	long := strings.Repeat("x", rest.DrainMost+rest.Prefetch)
	_ = s.try(t.Context(), call{method: http.MethodPost, path: "/nothing", body: long})
	repeats(t, one, "still here")
	_ = one.Close()
	eventually(t, "no connection", func() bool {
		return s.rest.Idle()
	})
}
