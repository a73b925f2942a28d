package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
)

// inSocket sends a message and returns what comes next.
func inSocket(t *testing.T, conn *websocket.Conn, message string) string {
	t.Helper()
	if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
		t.Fatal(err)
	}
	return fromSocket(t, conn)
}

func fromSocket(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	kind, data, err := conn.ReadMessage()
	if err != nil || kind != websocket.TextMessage {
		t.Fatalf("%d %q %v", kind, data, err)
	}
	return string(data)
}

func TestACPTransportSocket(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	conn, resp, err := s.tryDial(t.Context(), transportURL+"?access_token="+s.Token(), http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	id := resp.Header.Get(headerConnection)
	if !strings.HasPrefix(id, socketPrefix) {
		t.Errorf("headers = %v", resp.Header)
	}
	if err := conn.WriteMessage(websocket.BinaryMessage, []byte(acpEcho)); err != nil { // no message
		t.Fatal(err)
	}
	for _, c := range []struct{ message, want string }{
		{`{`, `"id":null,"error":{"code":-32700`},
		{`[]`, `"id":null,"error":{"code":-32600`},
		{acpBegin, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}`},
		{acpBegin, `"id":0,"error":{"code":-32603,"message":"initialize is not allowed`},
		{`"text"`, `"id":null,"error":{"code":-32600`},
		{`{"id":1,"method":"session/new","params":{"cwd":"/","sessionId":"one"}}`, `{"jsonrpc":"2.0","id":1,"result":{"cwd":"/","sessionId":"one"}}`},
		{`{"method":"notify","params":{"sessionId":"one"}}`, `{"method":"notified","params":{"sessionId":"one"}}`},
		{`{"id":2,"method":"echo","params":{"sessionId":"one","n":1e400}}`, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"one","n":1e400}}`},
		{`{"id":"q","method":"ask"}`, `{"id":7,"method":"fs/read_text_file","params":{}}`},
	} {
		if got := inSocket(t, conn, c.message); !strings.Contains(got, c.want) {
			t.Errorf("%s is answered by %s, want %s", c.message, got, c.want)
		}
	}
	if got := fromSocket(t, conn); got != `{"id":"q","result":{}}` {
		t.Error(got)
	}
	if list := s.get(t, "/v1/acp"); !strings.Contains(string(list.body), id) {
		t.Errorf("servers = %s", list.body)
	}
	_ = conn.Close()
	until(t, "the agent has ended", func() bool { return !strings.Contains(string(s.get(t, "/v1/acp").body), id) })
}

// TestACPTransportSocketWithoutInitialize takes all places for connections and sends messages
// other than initialize. The places become free.
func TestACPTransportSocketWithoutInitialize(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{also: func(s *Server) { s.acp.Greeting = 2 * time.Second }})
	used := s.dial(t, transportURL, nil)
	inSocket(t, used, acpBegin)
	silent := make([]*websocket.Conn, 63)
	for i := range silent {
		silent[i] = s.dial(t, transportURL, nil)
		if got := inSocket(t, silent[i], "{"); !strings.Contains(got, "-32700") {
			t.Fatal(got)
		}
	}
	s.do(t, call{path: transportURL, header: map[string]string{"Upgrade": "websocket"}}).problem(t, http.StatusServiceUnavailable, "stream_error")
	for i, conn := range silent {
		if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	next := s.dial(t, transportURL, nil)
	inSocket(t, next, acpBegin)
	if got := inSocket(t, used, acpEcho); !strings.Contains(got, `"id":1`) {
		t.Errorf("the connection with initialize: %s", got)
	}
}

// How a WebSocket ends when it has to.
func TestACPTransportSocketEnds(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	first := s.dial(t, transportURL, nil)
	if err := first.WriteMessage(websocket.TextMessage, []byte(acpEcho)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := first.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseProtocolError) {
		t.Errorf("without initialize: %v", err)
	}
	broken := s.dial(t, "/v1/agents/broken/acp", nil)
	if got := inSocket(t, broken, acpBegin); !strings.Contains(got, `"id":0,"error":{"code":-32603,"message":"failed to start`) {
		t.Error(got)
	}
	if _, _, err := broken.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseInternalServerErr) {
		t.Errorf("without an agent: %v", err)
	}
	crashed := s.dial(t, transportURL, nil)
	inSocket(t, crashed, acpBegin)
	if err := crashed.WriteMessage(websocket.TextMessage, []byte(`{"method":"exit"}`)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := crashed.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNoStatusReceived) {
		t.Errorf("after the agent's end: %v", err)
	}
	if _, resp, err := s.tryDial(t.Context(), transportURL, http.Header{}); err == nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %v %v", resp, err)
	}
	s.do(t, call{path: transportURL, header: map[string]string{"Upgrade": "websocket"}}).problem(t, http.StatusBadRequest, "invalid_request")
	until(t, "nothing is left", func() bool { return len(s.acp.Streams()) == 0 })
}
