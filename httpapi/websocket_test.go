package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// dial opens a WebSocket at a path. It is closed when the test ends.
func (s *testServer) dial(t *testing.T, path string, header http.Header) *websocket.Conn {
	t.Helper()
	conn, resp, err := s.tryDial(t.Context(), path, header)
	if err != nil {
		t.Fatalf("dial %s: %v (%v)", path, err, resp)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *testServer) tryDial(ctx context.Context, path string, header http.Header) (*websocket.Conn, *http.Response, error) {
	d := websocket.Dialer{HandshakeTimeout: 10 * time.Second}
	if header == nil {
		header = http.Header{"Authorization": {"Bearer " + s.Token()}}
	}
	conn, resp, err := d.DialContext(ctx, "ws"+strings.TrimPrefix(s.url, "http")+path, header)
	if err == nil {
		err = conn.SetReadDeadline(time.Now().Add(time.Minute))
	}
	return conn, resp, err
}

// echo adds a WebSocket that repeats what it receives; "bye" ends it.
func echo(s *Server) {
	rest.Add(s.routes, rest.Route{ID: "echo", Method: http.MethodGet, Path: "/v1/test/echo", Query: true}, func(context.Context, *struct{}) (*rest.SocketOutput, error) {
		return &rest.SocketOutput{Body: func(ctx huma.Context) {
			s.rest.Upgrade(ctx, 1000, func(_ context.Context, ws *rest.Socket) {
				for {
					kind, data, err := ws.Receive()
					if err != nil {
						return
					}
					switch string(data) {
					case "bye":
						ws.Finish()
						continue
					case "panic":
						panic("at the client's wish")
					}
					if ws.Send(kind, data) != nil {
						return
					}
				}
			})
		}}, nil
	})
}

func repeats(t *testing.T, conn *websocket.Conn, text string) {
	t.Helper()
	if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if kind, got, err := conn.ReadMessage(); err != nil || kind != websocket.TextMessage || string(got) != text {
		t.Fatalf("%q came back as %q (%d, %v)", text, got, kind, err)
	}
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *testServer{
		"served":  func(t *testing.T) *testServer { t.Helper(); return serve(t, Config{also: echo}) },
		"handler": func(t *testing.T) *testServer { t.Helper(); return embedded(t, Config{also: echo}) },
		"mounted": func(t *testing.T) *testServer { t.Helper(); return mounted(t, Config{also: echo}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			conn := s.dial(t, "/v1/test/echo", nil)
			repeats(t, conn, "hello")
			repeats(t, conn, strings.Repeat("x", 1000))

			pong := make(chan string, 1)
			conn.SetPongHandler(func(text string) error { pong <- text; return nil })
			if err := conn.WriteControl(websocket.PingMessage, []byte("are you there"), time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			repeats(t, conn, "after the ping")
			if got := <-pong; got != "are you there" {
				t.Errorf("pong = %q", got)
			}

			second := s.dial(t, "/v1/test/echo?access_token="+s.Token(), http.Header{})
			if err := second.WriteMessage(websocket.TextMessage, []byte("bye")); err != nil {
				t.Fatal(err)
			}
			_, _, err := second.ReadMessage()
			if !websocket.IsCloseError(err, websocket.CloseNoStatusReceived) {
				t.Errorf("after bye: %v, want a close frame without a status", err)
			}
			third := s.dial(t, "/v1/test/echo", nil)
			if err := third.WriteMessage(websocket.TextMessage, []byte("panic")); err != nil {
				t.Fatal(err)
			}
			if _, _, err := third.ReadMessage(); err == nil {
				t.Error("the WebSocket of a panic goes on")
			}
			repeats(t, conn, "after the panic")
			if err := conn.WriteMessage(websocket.TextMessage, []byte(strings.Repeat("x", 1001))); err != nil {
				t.Fatal(err)
			}
			if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
				t.Errorf("after a message that is too large: %v", err)
			}
		})
	}
}

func TestWebSocketRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{also: echo})
	s.get(t, "/v1/test/echo").problem(t, 400, "invalid_request")
	for name, tt := range map[string]struct {
		path   string
		header http.Header
		status int
	}{
		"no token":     {"/v1/test/echo", http.Header{}, 401},
		"wrong token":  {"/v1/test/echo?access_token=wrong", http.Header{}, 401},
		"another site": {"/v1/test/echo?access_token=wrong", http.Header{"Origin": {"http://evil.example"}}, 403},
	} {
		conn, resp, err := s.tryDial(t.Context(), tt.path, tt.header)
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, websocket.ErrBadHandshake) || resp.StatusCode != tt.status {
			t.Errorf("%s: %v, %v, want %d", name, err, resp, tt.status)
		}
	}
	s.dial(t, "/v1/test/echo?access_token="+s.Token(), http.Header{"Origin": {s.url}})
	s.dial(t, "/v1/test/echo?access_token="+s.Token(), http.Header{"Origin": {"http://localhost:5173"}})
}

// TestWebSocketsEndWithTheServer also shows that Close waits for them: nothing
// of theirs is left for the leak check.
func TestWebSocketsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{also: echo})
	conn := s.dial(t, "/v1/test/echo", nil)
	repeats(t, conn, "hello")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("after the server's end: %v, want a close frame that says going away", err)
	}
}

// TestWebSocketMemory: unfinished messages count as bodies of requests do.
func TestWebSocketMemory(t *testing.T) {
	t.Parallel()
	large := func(s *Server) {
		rest.Add(s.routes, rest.Route{ID: "large", Method: http.MethodGet, Path: "/v1/test/large", Query: true, Scope: grants.ScopeView}, func(context.Context, *struct{}) (*rest.SocketOutput, error) {
			return &rest.SocketOutput{Body: func(ctx huma.Context) {
				s.rest.Upgrade(ctx, 4<<20, func(_ context.Context, ws *rest.Socket) {
					for {
						_, data, err := ws.Receive()
						if err != nil || ws.Send(websocket.TextMessage, []byte(fmt.Sprint(len(data)))) != nil {
							return
						}
					}
				})
			}}, nil
		})
	}
	const sent = 2 << 20
	s := serve(t, Config{also: large})
	s.rest.Bodies.SetBounds(8<<20, 3<<20)
	_, view := s.token(t, `{"scope":"view"}`)
	guest := http.Header{"Authorization": {"Bearer " + view}}
	used := func(want int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d bytes are counted", want), func() bool {
			return s.rest.Bodies.Size() == want
		})
	}
	begin := func() (*websocket.Conn, error) {
		conn := s.dial(t, "/v1/test/large", guest)
		w, err := conn.NextWriter(websocket.TextMessage)
		if err == nil {
			_, err = w.Write(make([]byte, sent)) // the end of the message is missing
		}
		return conn, err
	}
	first, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the message is counted", func() bool {
		return s.rest.Bodies.Size() > sent/2
	})
	second, err := begin() // it is disconnected, perhaps before it has written all
	if err == nil {
		_, _, err = second.ReadMessage()
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		t.Error("a message for which there is no memory does not end the connection")
	}
	if closed, ok := errors.AsType[*websocket.CloseError](err); err == nil || ok && closed.Code != websocket.CloseTryAgainLater {
		t.Errorf("a message for which there is no memory: %v", err)
	}
	own := s.dial(t, "/v1/test/large", nil)
	if err := own.WriteMessage(websocket.TextMessage, make([]byte, sent)); err != nil {
		t.Fatal(err)
	}
	if _, got, err := own.ReadMessage(); err != nil || string(got) != fmt.Sprint(sent) {
		t.Errorf("with the server's token: %s, %v", got, err)
	}
	if err := own.WriteMessage(websocket.TextMessage, []byte("small")); err != nil {
		t.Fatal(err)
	}
	_, _, _ = own.ReadMessage() // the message before is over
	_ = first.Close()
	used(0)
}
