package acp

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/panics"
)

// The transport follows the RFD "Streamable HTTP & WebSocket Transport" of
// agentclientprotocol.com, as of 2026-06-05, as the clients in @agentclientprotocol/sdk 2.4.0
// speak it (experimental/http-client, experimental/ws-client). Where that package's own
// server differs from the text, the routes follow the server: an array is answered by 400,
// and a stream of a session that does not exist yet can be opened.
const (
	transportPath    = "/v1/agents/{agent}/acp"
	headerConnection = "Acp-Connection-Id"
	headerSession    = "Acp-Session-Id"
	methodInitialize = "initialize"
)

const aboutTransport = `The transport of the Agent Client Protocol for remote agents (its RFD "Streamable HTTP & WebSocket Transport",
as in @agentclientprotocol/sdk 2.4). ACP clients need this URL and a token. `

// Target is what a request of the transport is about.
type Target struct {
	Agent      string `path:"agent" doc:"Name of the agent" example:"claude"`
	Connection string `header:"Acp-Connection-Id" doc:"Connection id from the response to initialize; omit it only with initialize"`
	Session    string `header:"Acp-Session-Id" maxLength:"512" doc:"Session of the message or the stream"`
}

type transportPost struct {
	Target
	Desktop string `query:"desktop" doc:"Desktop for the agent, as tools and in its environment; takes effect with initialize"`
	RawBody []byte
}

type transportOutput struct {
	Connection  string `header:"Acp-Connection-Id"`
	ContentType string `header:"Content-Type"`
	Body        func(huma.Context)
}

func (a *Area) registerTransport(r rest.Route, envelope map[string]*huma.MediaType) {
	accepted := map[string]*huma.Response{"202": {Description: http.StatusText(http.StatusAccepted)}}

	post := r.Post("postAcpMessage", transportPath, "Connect to an agent, or send it a message")
	post.About = aboutTransport + "initialize creates a connection with its own agent process. Its response has the answer, and the id of the connection in " +
		"the header Acp-Connection-Id. Other messages return 202 after they are stored, and are answered on the streams."
	post.Errors = []int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnsupportedMediaType,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
	post.Content, post.Most, post.Body, post.More = envelope, MaxMessage, &huma.RequestBody{Required: true, Content: envelope}, accepted
	agenthost.Add(a.Group, post, a.postTransport)

	follow := r.Get("followAcpConnection", transportPath, "Stream the messages of a connection, or connect by WebSocket")
	follow.About = aboutTransport + "With Acp-Session-Id, the stream has the events of the session. Without it, the stream has the events without a session, and the " +
		"answers to session/new and session/load. A stream continues where the previous one ended, or after Last-Event-ID. With Upgrade: websocket, " +
		"the connection is a WebSocket with one message in each text frame in both directions, and ends with the WebSocket."
	follow.Query, follow.Content = true, rest.EventContent()
	follow.Errors = []int{http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable, http.StatusServiceUnavailable}
	follow.More = map[string]*huma.Response{"101": {Description: "The connection is a WebSocket from now on"}}
	agenthost.Add(a.Group, follow, a.followTransport)

	end := r.Delete("endAcpConnection", transportPath, "Close a connection").WithAbout("The agent's process ends. Other connections can load its sessions.")
	end.Status, end.Errors, end.More = http.StatusAccepted, []int{http.StatusBadRequest, http.StatusNotFound}, accepted
	agenthost.Add(a.Group, end, func(ctx context.Context, in *Target) (*struct{}, error) {
		host, c, err := a.find(ctx, in)
		if err == nil {
			a.disconnect(host, c)
		}
		return nil, err
	})
}

// find returns the connection that a request names.
func (a *Area) find(ctx context.Context, in *Target) (*agents.Host, *connection, error) {
	if in.Connection == "" {
		return nil, nil, noHeader()
	}
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, err := a.connections.find(ctx, host, in.Connection, in.Agent)
	return host, c, err
}

func badHeader(name, sentence string) *rest.Problem {
	return rest.InvalidRequest.Problem("invalid request: "+name+" "+sentence).With("field", name)
}

func noHeader() *rest.Problem {
	return badHeader(headerConnection, "is missing: send what the answer to initialize had in that header")
}

func (a *Area) postTransport(ctx context.Context, in *transportPost) (*transportOutput, error) {
	if !isJSON(rest.RequestIn(ctx).Fiber.Get(fiber.HeaderContentType)) {
		return nil, rest.UnsupportedMedia.Problem("unsupported media type: Content-Type must be application/json")
	}
	m, err := agents.Inspect(in.RawBody)
	first := m.Method == methodInitialize
	switch {
	case err != nil:
		return nil, err
	case first && in.Connection != "":
		return nil, badHeader(headerConnection, "must be left out with initialize: each connection is initialized once")
	case first && !m.Request:
		return nil, rest.InvalidField("id", "initialize must have an id, so that it can be answered")
	case first:
		return a.connect(ctx, in)
	case m.Session != in.Session && m.Session != "" && in.Connection != "":
		return nil, badHeader(headerSession, "must be the sessionId of the message's params: "+m.Session)
	}
	host, c, err := a.find(ctx, &in.Target)
	if err != nil {
		return nil, err
	}
	if err := a.submit(rest.Detach(ctx), host, c, bytes.Clone(in.RawBody)); err != nil {
		return nil, c.explain(err)
	}
	return &transportOutput{Body: func(ctx huma.Context) { ctx.SetStatus(http.StatusAccepted) }}, nil
}

// await runs a call of the host and waits for it, or until the server begins to close. The
// call ends at the latest with the host.
func (a *Area) await(call func() error) error {
	done := make(chan error, 1)
	if err := a.Host.Go(func() { done <- panics.Catch(a.Logger, "call the host", call) }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-a.Done():
		return agents.ErrClosed
	}
}

// submit passes a message on, and returns when it is in the log.
func (a *Area) submit(ctx context.Context, host *agents.Host, c *connection, body []byte) error {
	return a.await(func() error { return host.Submit(ctx, c.id, agents.PostOptions{}, body) })
}

// explain returns the problem for an error of a message to the connection.
func (c *connection) explain(err error) error {
	// Only initialize names the agent, so that no other message makes one.
	if rest.IsAny(err, agents.ErrAgentNeeded, agents.ErrServerNotFound) {
		return noConnection(c.id)
	}
	p := agenthost.Names{Session: c.id, Agent: c.agent}.Problem(err)
	if _, ok := errors.AsType[*agents.ExitedError](err); ok {
		p.Title, p.Status = http.StatusText(http.StatusGone), http.StatusGone
		p.Detail += "; the connection is over: initialize another, and load the session there"
	}
	if p == nil {
		return err
	}
	return p
}

// admit adds a connection, if there is room.
func (a *Area) admit(host *agents.Host, c *connection) error {
	removed, ok := a.connections.add(c)
	switch {
	case !ok:
		return tooMany()
	case removed != nil:
		a.Logger.Info("an unused connection makes room", "connection", removed.id)
		return a.Host.Go(func() { a.disconnect(host, removed) })
	}
	return nil
}

// connect makes a connection for a request to initialize, and answers that.
func (a *Area) connect(ctx context.Context, in *transportPost) (*transportOutput, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	c := a.connections.make(connectionPrefix, in.Agent)
	if err := a.admit(host, c); err != nil {
		return nil, err
	}
	body, id, work := bytes.Clone(in.RawBody), agents.RequestID(in.RawBody), rest.Detach(ctx)
	out, err := a.AnswerLong(ctx, a.Host.Go, func() ([]byte, error) { // the agent may have to be installed
		return a.initialize(work, host, c, in.Desktop, body)
	}, func(err error) []byte { return agents.Failure(id, err) })
	if err != nil {
		return nil, err
	}
	return &transportOutput{c.id, out.ContentType, out.Body}, nil
}

// initialize starts a connection's agent. The connection ends if that fails.
func (a *Area) initialize(ctx context.Context, host *agents.Host, c *connection, desktop string, body []byte) ([]byte, error) {
	answer, err := host.Post(ctx, c.id, agents.PostOptions{Agent: c.agent, Desktop: desktop}, body)
	if err != nil {
		a.disconnect(host, c)
	}
	return answer, err
}

// disconnect ends a connection, with its agent.
func (a *Area) disconnect(host *agents.Host, c *connection) {
	a.connections.remove(c)
	if err := host.Delete(context.Background(), c.id); err != nil && !errors.Is(err, agents.ErrClosed) {
		a.Logger.Warn("a connection's agent was not ended", "connection", c.id, "error", err)
	}
}
