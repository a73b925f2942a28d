package httpapi

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// The transport that ACP has for agents which are reached over a network: the
// RFD "Streamable HTTP & WebSocket Transport" of agentclientprotocol.com, as of
// 2026-06-05, as the clients in @agentclientprotocol/sdk 2.4.0 speak it
// (experimental/http-client, experimental/ws-client). Where that package's own
// server does other than the text, this does what the server does: an array is
// answered by 400, and a stream of a session that is not there yet can be opened.
const (
	transportPath    = "/v1/agents/{agent}/acp"
	headerConnection = "Acp-Connection-Id"
	headerSession    = "Acp-Session-Id"
)

const aboutTransport = `The transport of the Agent Client Protocol for agents that are reached over a network (its RFD "Streamable
HTTP & WebSocket Transport", as @agentclientprotocol/sdk 2.4 speaks it), so that ACP clients attach with this URL and a token. `

type acpTarget struct {
	Agent      string `path:"agent" doc:"Which agent" example:"claude"`
	Connection string `header:"Acp-Connection-Id" doc:"What the answer to initialize named; left out with initialize alone"`
	Session    string `header:"Acp-Session-Id" maxLength:"512" doc:"The session that the message, or the stream, is about"`
}

// ACPTarget is exported because huma sees embedded fields only then.
type ACPTarget = acpTarget

type transportPost struct {
	ACPTarget
	Desktop string `query:"desktop" doc:"A desktop that the agent gets, as tools and in its environment; counts with initialize"`
	RawBody []byte

	kind string
}

// Resolve keeps what the answer depends on.
func (in *transportPost) Resolve(ctx huma.Context) []error {
	in.kind = rest.RequestOf(ctx).Fiber.Get(fiber.HeaderContentType)
	return nil
}

type transportOutput struct {
	Connection  string `header:"Acp-Connection-Id"`
	ContentType string `header:"Content-Type"`
	Body        func(huma.Context)
}

// accepted is an answer without a body.
func accepted() *transportOutput {
	return &transportOutput{Body: func(ctx huma.Context) { ctx.SetStatus(http.StatusAccepted) }}
}

func (s *Server) registerTransport() {
	envelope := map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: &huma.Schema{Type: huma.TypeObject}}}
	taken := map[string]*huma.Response{"202": {Description: http.StatusText(http.StatusAccepted)}}
	rest.Add(s.routes, rest.Route{
		ID: "postAcpMessage", Method: http.MethodPost, Path: transportPath, Tag: acpTag,
		Summary: "Connect to an agent, and send it messages",
		About: aboutTransport + "initialize makes a connection, which is an agent's process of its own, and is answered here; the header " +
			"Acp-Connection-Id names the connection. Everything else is accepted once it is in the log, and answered on the streams.",
		Errors: []int{
			http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnsupportedMediaType,
			http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		},
		Content: envelope, Most: acpMost, Body: &huma.RequestBody{Required: true, Content: envelope}, More: taken,
	}, s.postTransport)
	rest.Add(s.routes, rest.Route{
		ID: "followAcpConnection", Method: http.MethodGet, Path: transportPath, Tag: acpTag, Query: true,
		Summary: "Follow a connection, or connect by WebSocket",
		About: aboutTransport + "With Acp-Session-Id the events are that session's, else those of no session and the answers to session/new " +
			"and session/load. A stream goes on where the one before it ended, or after Last-Event-ID. With Upgrade: websocket the " +
			"connection is a WebSocket with one message in each text frame, both ways, and ends with it.",
		Errors:  []int{http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable, http.StatusServiceUnavailable},
		Content: map[string]*huma.MediaType{rest.EventStream: {Schema: &huma.Schema{Type: huma.TypeString}}},
		More:    map[string]*huma.Response{"101": {Description: "The connection is a WebSocket from now on"}},
	}, s.followTransport)
	rest.Add(s.routes, rest.Route{
		ID: "endAcpConnection", Method: http.MethodDelete, Path: transportPath, Tag: acpTag, Status: http.StatusAccepted,
		Summary: "End a connection", About: "Its agent's process ends. Its sessions can be loaded in another.",
		Errors: []int{http.StatusBadRequest, http.StatusNotFound}, More: taken,
	}, s.endTransport)
}

// message looks at what was sent.
func (in *transportPost) message() (agents.Message, error) {
	if kind, _, err := mime.ParseMediaType(in.kind); err != nil || kind != fiber.MIMEApplicationJSON {
		return agents.Message{}, rest.UnsupportedMedia.Problem("unsupported media type: Content-Type must be application/json")
	}
	m, err := agents.Inspect(in.RawBody)
	if err != nil {
		return m, acpError(err, "", in.Agent)
	}
	first := m.Method == methodInitialize
	switch {
	case first && in.Connection != "":
		return m, badHeader(headerConnection, "must be left out with initialize: each connection is initialized once")
	case first && !m.Request:
		return m, rest.InvalidRequest.Problem("invalid request: initialize must have an id, so that it can be answered").With("field", "id")
	case first:
		return m, nil
	case in.Connection == "":
		return m, noHeader()
	case m.Session != in.Session && m.Session != "":
		return m, badHeader(headerSession, "must be the sessionId of the message's params: "+m.Session)
	}
	return m, nil
}

const methodInitialize = "initialize"

func badHeader(name, sentence string) *rest.Problem {
	return rest.InvalidRequest.Problem("invalid request: "+name+" "+sentence).With("field", name)
}

func noHeader() *rest.Problem {
	return badHeader(headerConnection, "is missing: send what the answer to initialize had in that header")
}

func (s *Server) postTransport(ctx context.Context, in *transportPost) (*transportOutput, error) {
	m, err := in.message()
	if err != nil {
		return nil, err
	}
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, "", in.Agent)
	}
	if m.Method == methodInitialize {
		return s.connect(host, in)
	}
	c, err := s.connections.find(ctx, host, in.Connection, in.Agent)
	if err != nil {
		return nil, err
	}
	if err := s.submit(host, c, bytes.Clone(in.RawBody)); err != nil {
		return nil, connectionError(err, c)
	}
	return accepted(), nil
}

// submit passes a message on, and returns when it is in the log.
func (s *Server) submit(host *agents.Host, c *connection, body []byte) error {
	done := make(chan error, 1)
	s.agents.waiting.Go(func() { // ends at the latest with the host
		done <- host.Submit(context.Background(), c.id, agents.PostOptions{}, body)
	})
	select {
	case err := <-done:
		return err
	case <-s.rest.Done():
		return agents.ErrClosed
	}
}

// connectionError is the problem that a message to a connection ran into.
func connectionError(err error, c *connection) error {
	if exited, ok := errors.AsType[*agents.ExitedError](err); ok {
		p := exitedProblem(exited)
		p.Title, p.Status = http.StatusText(http.StatusGone), http.StatusGone
		p.Detail += "; the connection is over: initialize another, and load the session there"
		return p
	}
	// The agent is named with initialize alone, so that nothing else makes one.
	if errors.Is(err, agents.ErrAgentNeeded) || errors.Is(err, agents.ErrServerNotFound) {
		return noConnection(c.id)
	}
	return acpError(err, c.id, c.agent)
}

// connect makes a connection of a request to initialize, and answers that.
func (s *Server) connect(host *agents.Host, in *transportPost) (*transportOutput, error) {
	c := newConnection(connectionPrefix, in.Agent)
	if err := s.admit(host, c); err != nil {
		return nil, err
	}
	body := bytes.Clone(in.RawBody)
	answer := s.initialize(host, c, in.Desktop, body)
	out := &transportOutput{Connection: c.id, ContentType: fiber.MIMEApplicationJSON}
	early := time.NewTimer(s.rest.Early) // the agent may have to be installed
	defer early.Stop()
	select {
	case a := <-answer:
		if a.err != nil {
			return nil, acpError(a.err, c.id, in.Agent)
		}
		out.Body = func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			rest.RequestOf(ctx).Send(a.raw)
		}
	case <-early.C:
		out.Body = func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			s.beatACP(rest.RequestOf(ctx), body, answer)
		}
	case <-s.rest.Done():
		return nil, rest.ShuttingDown.Problem("the server is shutting down")
	}
	return out, nil
}

// initialize starts a connection's agent. The connection ends if that fails.
func (s *Server) initialize(host *agents.Host, c *connection, desktop string, body []byte) <-chan acpAnswer {
	answer := make(chan acpAnswer, 1)
	s.agents.waiting.Go(func() { // ends at the latest with the host
		raw, err := host.Post(context.Background(), c.id, agents.PostOptions{Agent: c.agent, Desktop: desktop}, body)
		if err != nil {
			s.disconnect(host, c)
		}
		answer <- acpAnswer{raw, err}
	})
	return answer
}

// disconnect ends a connection, with its agent.
func (s *Server) disconnect(host *agents.Host, c *connection) {
	s.connections.remove(c)
	if err := host.Delete(context.Background(), c.id); err != nil && !errors.Is(err, agents.ErrClosed) {
		s.log.Warn("a connection's agent was not ended", "connection", c.id, "error", err)
	}
}

func (s *Server) endTransport(ctx context.Context, in *acpTarget) (*struct{}, error) {
	if in.Connection == "" {
		return nil, noHeader()
	}
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, "", in.Agent)
	}
	c, err := s.connections.find(ctx, host, in.Connection, in.Agent)
	if err != nil {
		return nil, err
	}
	s.disconnect(host, c)
	return nil, nil //nolint:nilnil // huma's answer without a body
}

// wantsSocket tells whether a request asks to become a WebSocket.
func wantsSocket(r *rest.Request) bool {
	return strings.EqualFold(strings.TrimSpace(r.Fiber.Get(fiber.HeaderUpgrade)), "websocket")
}
