package acp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// connectSocket upgrades a request to a WebSocket. The connection lasts as long as the
// WebSocket.
func (a *Area) connectSocket(ctx context.Context, in *transportFollow) (*rest.EventsOutput, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	if a.connections.full() {
		return nil, tooMany()
	}
	client := socket{area: a, host: host, connection: a.connections.make(socketPrefix, in.Agent), desktop: in.Desktop}
	return &rest.EventsOutput{Body: func(ctx huma.Context) {
		rest.RequestOf(ctx).Fiber.Set(headerConnection, client.id)
		a.Upgrade(ctx, MaxMessage, func(ctx context.Context, ws *rest.Socket) {
			client.ws = ws
			client.users++ // so that it never counts as resting
			if a.admit(host, client.connection) != nil {
				ws.End(websocket.CloseTryAgainLater)
				return
			}
			defer a.disconnect(host, client.connection)
			client.serve(ctx)
		})
	}}, nil
}

// socket is the connection of a client that came by WebSocket.
type socket struct {
	*connection
	area    *Area
	host    *agents.Host
	ws      *rest.Socket
	desktop string
}

// serve takes messages until the client, the agent or the server ends the connection. Each
// message is in the log before the next one is read.
func (s *socket) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if s.begin() {
		wg.Go(func() {
			s.follow(ctx)
			s.ws.Finish()
		})
		for s.next() {
			continue
		}
	}
	cancel()
	_ = s.ws.Under.Close() // ends a send that waits for the client
	wg.Wait()
}

// receive returns the next text message. It skips binary ones.
func (s *socket) receive() ([]byte, error) {
	for {
		kind, data, err := s.ws.Receive()
		if err != nil || kind == websocket.TextMessage {
			return data, err
		}
	}
}

// The answers to messages that cannot be passed on (JSON-RPC 2.0, section 5.1).
const (
	parseFailed    = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`
	invalidMessage = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: a message must be an object; there are no batches"}}`
)

// inspect describes a message, and answers data that is not a message. open is false if
// nothing more can be sent to the client.
func (s *socket) inspect(data []byte) (m agents.Message, ok, open bool) {
	m, err := agents.Inspect(data)
	switch {
	case err == nil:
		return m, true, true
	case errors.Is(err, agents.ErrNotObject):
		err = s.send([]byte(invalidMessage))
	default:
		err = s.send([]byte(parseFailed))
	}
	return m, false, err == nil
}

func (s *socket) send(message []byte) error { return s.ws.Send(websocket.TextMessage, message) }

// begin answers initialize, which has to be the first message, within Area.Greeting. It
// returns false if the connection ends.
func (s *socket) begin() bool {
	late := time.AfterFunc(s.area.Greeting, func() { s.ws.End(websocket.ClosePolicyViolation) })
	defer late.Stop()
	for {
		data, err := s.receive()
		if err != nil {
			return false
		}
		m, ok, open := s.inspect(data)
		switch {
		case !open:
			return false
		case !ok:
			continue
		case m.Method != methodInitialize || !m.Request:
			s.ws.End(websocket.CloseProtocolError)
			return false
		}
		late.Stop()
		answer := make(chan []byte, 1)
		err = s.area.await(func() error {
			text, err := s.area.initialize(context.Background(), s.host, s.connection, s.desktop, data)
			answer <- text
			return err
		})
		switch {
		case errors.Is(err, agents.ErrClosed):
			return false
		case err != nil:
			_ = s.send(agents.Failure(agents.RequestID(data), err)) // the close frame reports it, too
			s.ws.End(websocket.CloseInternalServerErr)
			return false
		}
		return s.send(<-answer) == nil
	}
}

// next passes one message on. It returns false if the connection ends.
func (s *socket) next() bool {
	data, err := s.receive()
	if err != nil {
		return false
	}
	m, ok, open := s.inspect(data)
	if !ok {
		return open
	}
	if m.Method == methodInitialize {
		err = errors.New("initialize is not allowed on an existing connection")
	} else {
		err = s.area.submit(context.Background(), s.host, s.connection, data)
	}
	if err != nil && m.Request {
		return s.send(agents.Failure(agents.RequestID(data), err)) == nil
	}
	return true // a notification has no answer
}

// follow sends the agent's messages until the agent ends. It reads the log at the pace of
// the client.
func (s *socket) follow(ctx context.Context) {
	stream, err := s.host.Follow(ctx, s.id, agents.Replay{All: true})
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
			if _, ok := streamOf(e); ok && s.send(e.Payload) != nil {
				return // receive fails as well, which ends the connection
			}
		}
	}
}
