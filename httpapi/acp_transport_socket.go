package httpapi

import (
	"context"
	"errors"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// connectSocket makes a WebSocket of a request, which is a connection as long
// as it is open.
func (s *Server) connectSocket(ctx context.Context, in *transportFollow) (*rest.EventsOutput, error) {
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, "", in.Agent)
	}
	if s.connections.full() {
		return nil, tooMany()
	}
	client := transportSocket{s: s, host: host, c: newConnection(socketPrefix, in.Agent), desktop: in.Desktop}
	return &rest.EventsOutput{Body: func(ctx huma.Context) {
		rest.RequestOf(ctx).Fiber.Set(headerConnection, client.c.id)
		s.rest.Upgrade(ctx, acpMost, func(ctx context.Context, ws *rest.Socket) {
			client.ws = ws
			client.c.users++ // so that it never counts as resting
			if s.admit(host, client.c) != nil {
				ws.End(websocket.CloseTryAgainLater)
				return
			}
			defer s.disconnect(host, client.c)
			client.serve(ctx)
		})
	}}, nil
}

// transportSocket is a client that came by WebSocket.
type transportSocket struct {
	s       *Server
	host    *agents.Host
	c       *connection
	ws      *rest.Socket
	desktop string
}

// serve takes messages until the client, the agent or the server ends it. Each
// is in the log before the next is looked at.
func (t *transportSocket) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if t.begin(ctx) {
		wg.Go(func() {
			t.follow(ctx)
			t.ws.Finish()
		})
		for t.next() {
			continue
		}
	}
	cancel()
	_ = t.ws.Under.Close() // what is still being sent to it is not waited for
	wg.Wait()
}

// receive returns the next message. Binary ones are none.
func (t *transportSocket) receive() ([]byte, error) {
	for {
		kind, data, err := t.ws.Receive()
		if err != nil || kind == websocket.TextMessage {
			return data, err
		}
	}
}

// What is answered to messages that cannot be passed on (JSON-RPC 2.0, section
// 5.1).
const (
	parseFailed    = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`
	invalidMessage = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: a message must be an object; there are no batches"}}`
)

// inspect looks at a message, and answers what is none. False: nothing more can
// be sent to the client.
func (t *transportSocket) inspect(data []byte) (m agents.Message, ok, open bool) {
	m, err := agents.Inspect(data)
	switch {
	case err == nil:
		return m, true, true
	case errors.Is(err, agents.ErrNotObject):
		err = t.say([]byte(invalidMessage))
	default:
		err = t.say([]byte(parseFailed))
	}
	return m, false, err == nil
}

func (t *transportSocket) say(message []byte) error { return t.ws.Send(websocket.TextMessage, message) }

// begin waits for initialize, which has to come first, and answers it.
func (t *transportSocket) begin(ctx context.Context) bool {
	for {
		data, err := t.receive()
		if err != nil {
			return false
		}
		m, ok, open := t.inspect(data)
		switch {
		case !open:
			return false
		case !ok:
			continue
		case m.Method != methodInitialize || !m.Request:
			t.ws.End(websocket.CloseProtocolError)
			return false
		}
		select {
		case a := <-t.s.initialize(t.host, t.c, t.desktop, data):
			if a.err != nil {
				_ = t.say(agents.Failure(data, a.err)) // the end says it as well
				t.ws.End(websocket.CloseInternalServerErr)
				return false
			}
			return t.say(a.raw) == nil
		case <-t.s.rest.Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// next passes one message on. False ends the connection.
func (t *transportSocket) next() bool {
	data, err := t.receive()
	if err != nil {
		return false
	}
	m, ok, open := t.inspect(data)
	if !ok {
		return open
	}
	if m.Method == methodInitialize {
		err = errors.New("initialize is not allowed on an existing connection")
	} else {
		err = t.s.submit(t.host, t.c, data)
	}
	if err != nil && m.Request {
		return t.say(agents.Failure(data, err)) == nil
	}
	return true // a notification has no answer, not even that it was lost
}

// follow sends what the agent says, until it ends. What the client leaves unread
// stays in the log.
func (t *transportSocket) follow(ctx context.Context) {
	stream, err := t.host.Follow(ctx, t.c.id, agents.Replay{All: true})
	if err != nil {
		return
	}
	defer stream.Close()
	for {
		events, err := stream.Next(ctx)
		if err != nil {
			return
		}
		for i := range events {
			e := &events[i]
			if exited(e) {
				return
			}
			if _, ok := streamOf(e); ok && t.say(e.Payload) != nil {
				return // receiving fails as well, which ends all
			}
		}
	}
}
