package rest

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fasthttp/websocket"
	"github.com/valyala/fasthttp"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// Deadlines of WebSockets.
const (
	// stalledSocket is how long a client may leave what is sent to it unread.
	// Only that client waits for it.
	stalledSocket = 5 * time.Minute
	// messageTime is the default of API.MessageTime.
	messageTime = time.Minute
	// closingTime is how long a client may take to answer a close frame.
	closingTime = 5 * time.Second
	// pingTime is the time between two pings, for proxies that end silent connections.
	// An answer is not required: TCP reports a client that has gone.
	pingTime = 25 * time.Second
)

// Socket is the server's side of a WebSocket (RFC 6455). Any goroutine may
// send; one receives.
type Socket struct {
	conn  *websocket.Conn
	Under net.Conn // closing it ends everything
	write sync.Mutex

	whole   time.Duration             // API.MessageTime
	memory  *bodyMemory               // counts messages
	guest   *grants.Grant             // see bodyMemory.take
	message *buffered                 // what receive returned last
	last    atomic.Pointer[time.Time] // when receive ends; nil: not yet known
}

// sockets are the WebSockets that came by one way, and the connections that
// linger. They count among the connections of limits until they end.
type sockets struct {
	limits *connLimits // nil: none

	mu   sync.Mutex
	over bool
	open sync.WaitGroup
}

// begin counts a WebSocket, unless all have to end. The caller must call end when its
// connection ends.
func (s *sockets) begin(conn net.Conn) (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		s.limits.release(conn)
		return nil, false
	}
	s.open.Add(1)
	return func() {
		s.limits.release(conn)
		s.open.Done()
	}, true
}

// wait refuses further WebSockets, and returns when all have ended. It does not end
// them: they end when entry.ending is closed.
func (s *sockets) wait() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.open.Wait()
}

// SocketOutput is what the handler of a WebSocket's route returns: a Body that
// calls upgrade.
type SocketOutput struct {
	Body func(huma.Context)
}

// Upgrade makes a request's connection a WebSocket and runs serve on it, after
// the handler has returned. serve's context ends with the server; when serve
// returns the connection is closed. Where the request came from was checked
// before, as of any other.
func (a *API) Upgrade(ctx huma.Context, most int64, serve func(context.Context, *Socket)) {
	rc := RequestOf(ctx).Fiber.Context()
	e := a.EntryOf(rc)
	under, g, guest, about := rc.Conn(), RequestOf(ctx).Grant, RequestOf(ctx).guest(), RequestOf(ctx).asked
	up := websocket.FastHTTPUpgrader{
		CheckOrigin: func(*fasthttp.RequestCtx) bool { return true },
		Error: func(_ *fasthttp.RequestCtx, _ int, reason error) {
			RequestOf(ctx).Fiber.Set("Sec-WebSocket-Version", "13")
			a.Write(RequestOf(ctx).Fiber, InvalidRequest.Problem("invalid request: this route is a WebSocket: "+reason.Error()))
		},
	}
	// The error was answered above.
	_ = up.Upgrade(rc, func(conn *websocket.Conn) {
		end, ok := e.sockets.begin(under)
		if !ok {
			return
		}
		defer end()
		defer g.Hold(under)()
		ws := &Socket{conn: conn, Under: under, whole: a.MessageTime, memory: a.Bodies, guest: guest}
		defer func() { ws.message.release() }()
		conn.SetReadLimit(most)
		defer survive(a, about, under)
		ws.run(e.Ending, serve)
	})
}

// run serves until serve returns.
func (ws *Socket) run(ending <-chan struct{}, serve func(context.Context, *Socket)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		ticker := time.NewTicker(pingTime)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ending:
				ws.End(websocket.CloseGoingAway)
				return
			case <-ticker.C:
				ws.ping()
			}
		}
	})
	serve(ctx, ws)
}

// ping pings the client, unless something is being sent to it anyway.
func (ws *Socket) ping() {
	if ws.write.TryLock() {
		defer ws.write.Unlock()
		_ = ws.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(2*time.Second))
	}
}

// End sends a close frame if it can, and closes the connection.
func (ws *Socket) End(code int) {
	_ = ws.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(100*time.Millisecond))
	_ = ws.Under.Close()
}

// Send sends one message. After an error the connection cannot be used.
func (ws *Socket) Send(kind int, data []byte) error {
	return ws.SendWithin(stalledSocket, kind, data)
}

// SendWithin is Send for a client that must accept the message within d.
func (ws *Socket) SendWithin(d time.Duration, kind int, data []byte) error {
	ws.write.Lock()
	defer ws.write.Unlock()
	_ = ws.conn.SetWriteDeadline(time.Now().Add(d))
	return ws.conn.WriteMessage(kind, data)
}

// SendJSON sends a value as a text message.
func (ws *Socket) SendJSON(v any) error {
	data, err := plainjson.Marshal(v)
	if err != nil {
		return err
	}
	return ws.Send(websocket.TextMessage, data)
}

// Finish sends a close frame without a reason and gives the client a moment to
// answer it, which ends what waits in receive.
func (ws *Socket) Finish() {
	_ = ws.conn.WriteControl(websocket.CloseMessage, nil, time.Now().Add(closingTime))
	ws.EndReceiving(time.Now().Add(closingTime))
}

// Receive returns the next message. It is valid until the next call. The client's pings
// are answered meanwhile. A client that takes longer than API.MessageTime for a message, or
// for whose message there is no memory, is disconnected.
func (ws *Socket) Receive() (kind int, data []byte, err error) {
	ws.message.release()
	ws.message = nil
	kind, r, err := ws.conn.NextReader()
	if err != nil {
		return 0, nil, err
	}
	ws.readUntil(time.Now().Add(ws.whole))
	defer ws.readUntil(time.Time{})
	ws.message = &buffered{Reader: r, memory: ws.memory, guest: ws.guest}
	data, err = io.ReadAll(ws.message)
	if ws.message.full {
		ws.End(websocket.CloseTryAgainLater)
	}
	return kind, data, err
}

// readUntil sets the deadline of receive, unless EndReceiving has set it for good.
func (ws *Socket) readUntil(t time.Time) {
	_ = ws.Under.SetReadDeadline(t)
	if last := ws.last.Load(); last != nil {
		_ = ws.Under.SetReadDeadline(*last)
	}
}

// EndReceiving has receive return an error from t on.
func (ws *Socket) EndReceiving(t time.Time) {
	ws.last.Store(&t)
	_ = ws.Under.SetReadDeadline(t)
}
