package acp

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type acpServer struct {
	ID        string `json:"serverId"`
	Agent     string `json:"agent"`
	CreatedMS int64  `json:"createdAtMs"`
}

type acpList struct {
	Servers []acpServer `json:"servers" nullable:"false"`
}

type pathInput struct {
	ID string `path:"serverId" doc:"Id of your choice"`
}

type postInput struct {
	ID      string `path:"serverId" doc:"Id of your choice"`
	Agent   string `query:"agent" doc:"Agent to run; required with the first message" example:"claude"`
	Desktop string `query:"desktop" doc:"Desktop for the agent, as tools and in its environment; takes effect when the agent's process starts"`
	RawBody []byte
}

type followInput struct {
	ID          string `path:"serverId" doc:"Id of your choice"`
	Replay      string `query:"replay" pattern:"^(none|all|[0-9]+)$" doc:"Without Last-Event-ID: none, all, or the number of the last event that the client received"`
	From        string `query:"from" pattern:"^[0-9]+$" doc:"Without Last-Event-ID: number of the first event to send"`
	LastEventID string `header:"Last-Event-ID" doc:"Number of the last event that the client received; the stream starts after it"`
}

// MaxMessage is the largest size of a message in bytes.
const MaxMessage = 64 << 20

// Config configures the routes of ACP.
type Config struct {
	Host   *agenthost.Host
	Logger *slog.Logger
}

// Area is the area of ACP.
type Area struct {
	rest.Group
	Config
	Now         func() time.Time // measures how long a connection has not been used
	Greeting    time.Duration    // how long the client of a WebSocket may take to send initialize
	connections connections
}

// Register adds the routes of ACP.
func Register(api *rest.API, cfg Config) *Area {
	a := &Area{Group: rest.Group{API: api}, Config: cfg, Now: time.Now, Greeting: greetingTime}
	a.connections.now = func() time.Time { return a.Now() }
	r := rest.Route{Tag: "Agents (ACP)"}
	envelope := map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: &huma.Schema{Type: huma.TypeObject}}}

	agenthost.Add(a.Group, r.Get("listAcpServers", "/v1/acp", "List the ACP servers"), a.list)

	post := r.Post("postAcp", "/v1/acp/{serverId}", "Send a JSON-RPC message to an agent")
	post.About = "The first message starts the agent. The response to a request is the agent's answer, which may be a JSON-RPC error. " +
		"A slow response starts with white space. Notifications, and answers to the agent's requests, return 202. " +
		"Messages are stored before they are forwarded."
	post.Errors = []int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable, http.StatusConflict, http.StatusUnsupportedMediaType,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInsufficientStorage,
	}
	post.Content, post.Most, post.Body = envelope, MaxMessage, &huma.RequestBody{Required: true, Content: envelope}
	post.More = map[string]*huma.Response{"202": {Description: "Accepted: the message was a notification or an answer"}}
	agenthost.Add(a.Group, post, a.post)

	follow := r.Get("followAcp", "/v1/acp/{serverId}", "Stream the messages of an agent")
	follow.About = "Each message of the agent is an event named message, including the answers that POST returns. Ids start at 1 for each " +
		"server, and continue when its process restarts. Without Last-Event-ID, the stream starts with the latest 1024 events of the latest process."
	follow.Query, follow.Content = true, rest.EventContent()
	follow.Errors = []int{http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable}
	agenthost.Add(a.Group, follow, a.follow)

	end := r.Delete("deleteAcp", "/v1/acp/{serverId}", "End an agent").WithAbout("Deleting a server that does not exist succeeds.")
	agenthost.Add(a.Group, end, func(ctx context.Context, in *pathInput) (*struct{}, error) {
		host, err := a.Host.Get(ctx)
		if err != nil {
			return nil, err
		}
		return nil, host.Delete(ctx, in.ID)
	})
	a.registerTransport(r, envelope)
	return a
}

// Streams returns, by id, the sessions of each connection's open streams.
func (a *Area) Streams() map[string][]string {
	a.connections.mu.Lock()
	defer a.connections.mu.Unlock()
	all := map[string][]string{}
	for id, c := range a.connections.all {
		c.mu.Lock()
		all[id] = slices.Collect(maps.Keys(c.readers))
		c.mu.Unlock()
	}
	return all
}

func (a *Area) list(ctx context.Context, _ *struct{}) (*rest.Output[acpList], error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	infos, err := host.Servers(ctx)
	list := acpList{Servers: []acpServer{}}
	for _, i := range infos {
		list.Servers = append(list.Servers, acpServer{i.ID, i.Agent, i.Created.UnixMilli()})
	}
	return rest.Reply(list, err)
}

// isJSON reports whether a Content-Type header names JSON.
func isJSON(header string) bool {
	kind, _, err := mime.ParseMediaType(header)
	return err == nil && kind == fiber.MIMEApplicationJSON
}

func (a *Area) post(ctx context.Context, in *postInput) (*rest.BodyOutput, error) {
	r := rest.RequestIn(ctx)
	switch {
	case !isJSON(r.Fiber.Get(fiber.HeaderContentType)):
		return nil, rest.UnsupportedMedia.Message("content-type must be application/json")
	case !rest.Accepts(r.Fiber.Get(fiber.HeaderAccept), fiber.MIMEApplicationJSON):
		return nil, rest.NotAcceptable.Message("accept must allow application/json")
	}
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	body := bytes.Clone(in.RawBody)
	if r.Empty {
		body = nil // not the {} that it is for other routes
	}
	return a.answer(ctx, host, in.ID, agents.PostOptions{Agent: in.Agent, Desktop: in.Desktop}, body)
}

// answer passes a message on and answers it. Once the status is sent, a failure is an error
// of JSON-RPC.
func (a *Area) answer(ctx context.Context, host *agents.Host, server string, o agents.PostOptions, body []byte) (*rest.BodyOutput, error) {
	var late func(error) []byte
	if m, err := agents.Inspect(body); err == nil && m.Request { // of other messages only the status is an answer
		id := agents.RequestID(body)
		late = func(err error) []byte { return agents.Failure(id, err) }
	}
	work := rest.Detach(ctx)
	return a.AnswerLong(ctx, a.Host.Go, func() ([]byte, error) {
		return host.Post(work, server, o, body) // ends at the latest with the host
	}, late)
}

func (a *Area) follow(ctx context.Context, in *followInput) (*rest.EventsOutput, error) {
	if !rest.Accepts(rest.RequestIn(ctx).Fiber.Get(fiber.HeaderAccept), rest.EventStream) {
		return nil, rest.NotAcceptable.Message("accept must allow text/event-stream")
	}
	replay, err := in.replay()
	if err != nil {
		return nil, err
	}
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := host.Follow(ctx, in.ID, replay)
	if err != nil {
		return nil, err
	}
	return rest.AnswerFeed(a.API, rest.Feed[[]eventlog.Event]{
		Next: stream.Next,
		Write: func(_ context.Context, w *rest.EventWriter, events []eventlog.Event) (more bool) {
			for i := range events {
				w.Write("message", events[i].Seq, events[i].Payload)
			}
			return true
		},
		Sent: stream.Sent, Close: stream.Close,
	}), nil
}

// replay returns where to begin.
func (in *followInput) replay() (r agents.Replay, err error) {
	number := func(name, text string) (n int64) {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
			err = rest.InvalidRequest.Problem("invalid request: " + name + " must be a positive integer")
		}
		return n
	}
	switch last := strings.TrimSpace(in.LastEventID); {
	case last != "" && last != "0":
		r.After = number("Last-Event-ID", last)
	case in.From != "":
		from := number("from", in.From)
		r.After, r.All = from-1, from <= 1
	case in.Replay == "none":
		r.None = true
	case in.Replay == "all", in.Replay == "0":
		r.All = true
	case in.Replay != "":
		r.After = number("replay", in.Replay)
	}
	return r, err
}
