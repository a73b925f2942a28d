package httpapi

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

const acpTag = "Agents (ACP)"

type acpServer struct {
	ID        string `json:"serverId"`
	Agent     string `json:"agent"`
	CreatedMS int64  `json:"createdAtMs"`
}

type acpList struct {
	Servers []acpServer `json:"servers" nullable:"false"`
}

type acpListOutput struct{ Body acpList }

type acpPath struct {
	ID string `path:"serverId" doc:"Chosen by the client"`
}

// ACPPath is exported because huma sees embedded fields only then.
type ACPPath = acpPath

type acpPost struct {
	ACPPath
	Agent   string `query:"agent" doc:"Which agent the server runs; needed with the first message" example:"claude"`
	Desktop string `query:"desktop" doc:"A desktop that the agent gets, as tools and in its environment; counts when its process starts"`
	RawBody []byte

	kind, accept string
	empty        bool
}

// Resolve keeps what the answer depends on.
func (in *acpPost) Resolve(ctx huma.Context) []error {
	r := rest.RequestOf(ctx)
	in.empty = r.Empty
	in.kind, in.accept = r.Fiber.Get(fiber.HeaderContentType), r.Fiber.Get(fiber.HeaderAccept)
	return nil
}

type acpOutput struct {
	ContentType string `header:"Content-Type"`
	Body        func(huma.Context)
}

const acpMost = 64 << 20 // bytes of a message

func (s *Server) registerACP() {
	envelope := map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: &huma.Schema{Type: huma.TypeObject}}}
	rest.Add(s.routes, rest.Route{
		ID: "listAcpServers", Method: http.MethodGet, Path: "/v1/acp", Tag: acpTag, Summary: "List the ACP servers",
	}, s.listACP)
	rest.Add(s.routes, rest.Route{
		ID: "postAcp", Method: http.MethodPost, Path: "/v1/acp/{serverId}", Tag: acpTag,
		Summary: "Send a JSON-RPC message to an agent",
		About: "The first message starts the agent. A request is answered with the agent's answer, errors of JSON-RPC included; " +
			"when that takes long the response begins with white space. Notifications, and answers to the agent's questions, are " +
			"accepted. Everything is in the log before it is passed on.",
		Errors: []int{
			http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable, http.StatusConflict, http.StatusUnsupportedMediaType,
			http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInsufficientStorage,
		},
		Content: envelope, Most: acpMost, Body: &huma.RequestBody{Required: true, Content: envelope},
		More: map[string]*huma.Response{"202": {Description: "Accepted: the message was a notification or an answer"}},
	}, s.postACP)
	rest.Add(s.routes, rest.Route{
		ID: "followAcp", Method: http.MethodGet, Path: "/v1/acp/{serverId}", Tag: acpTag, Query: true,
		Summary: "Follow what an agent says",
		About: "Each line of the agent's is an event named message, also the answers that POST returns. Its id counts from 1 for the " +
			"server, whatever happens to processes. Without Last-Event-ID the newest 1024 events of the newest process come first.",
		Errors:  []int{http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable},
		Content: map[string]*huma.MediaType{rest.EventStream: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}, s.followACP)
	rest.Add(s.routes, rest.Route{
		ID: "deleteAcp", Method: http.MethodDelete, Path: "/v1/acp/{serverId}", Tag: acpTag, Status: http.StatusNoContent,
		Summary: "End an agent", About: "A server that does not exist is no error.",
	}, s.deleteACP)
}

func (s *Server) listACP(ctx context.Context, _ *struct{}) (*acpListOutput, error) {
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, "", "")
	}
	infos, err := host.Servers(ctx)
	if err != nil {
		return nil, acpError(err, "", "")
	}
	out := &acpListOutput{Body: acpList{Servers: []acpServer{}}}
	for _, i := range infos {
		out.Body.Servers = append(out.Body.Servers, acpServer{i.ID, i.Agent, i.Created.UnixMilli()})
	}
	return out, nil
}

// acpError is the problem that an error is, if it is one.
func acpError(err error, server, agent string) error {
	if p := hostProblem(err, server, agent); p != nil {
		return p
	}
	return err
}

func (in *acpPost) check() error {
	if kind, _, err := mime.ParseMediaType(in.kind); err != nil || kind != fiber.MIMEApplicationJSON {
		return rest.UnsupportedMedia.Problem("unsupported media type: content-type must be application/json").
			With("details", map[string]any{"message": "content-type must be application/json"})
	}
	if !rest.Accepts(in.accept, fiber.MIMEApplicationJSON) {
		return rest.NotAcceptable.Problem("not acceptable: accept must allow application/json").
			With("details", map[string]any{"message": "accept must allow application/json"})
	}
	if in.empty {
		in.RawBody = nil // not the {} that it is for others
	}
	return nil
}

// acpAnswer is what became of a message.
type acpAnswer struct {
	raw []byte
	err error
}

func (s *Server) postACP(ctx context.Context, in *acpPost) (*acpOutput, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, in.ID, in.Agent)
	}
	answer := make(chan acpAnswer, 1)
	body := bytes.Clone(in.RawBody)
	s.agents.waiting.Go(func() { // ends at the latest with the host
		raw, err := host.Post(context.Background(), in.ID, agents.PostOptions{Agent: in.Agent, Desktop: in.Desktop}, body)
		answer <- acpAnswer{raw, err}
	})
	early := time.NewTimer(s.rest.Early)
	defer early.Stop()
	begin := early.C
	if m, err := agents.Inspect(body); err != nil || !m.Request {
		begin = nil // only its status is an answer
	}
	select {
	case a := <-answer:
		return a.output(in)
	case <-begin:
		return &acpOutput{ContentType: fiber.MIMEApplicationJSON, Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			s.beatACP(rest.RequestOf(ctx), body, answer)
		}}, nil
	case <-s.rest.Done():
		return nil, rest.ShuttingDown.Problem("the server is shutting down")
	}
}

func (a acpAnswer) output(in *acpPost) (*acpOutput, error) {
	switch {
	case a.err != nil:
		return nil, acpError(a.err, in.ID, in.Agent)
	case a.raw == nil:
		return &acpOutput{Body: func(ctx huma.Context) { ctx.SetStatus(http.StatusAccepted) }}, nil
	}
	return &acpOutput{ContentType: fiber.MIMEApplicationJSON, Body: func(ctx huma.Context) {
		ctx.SetStatus(http.StatusOK)
		rest.RequestOf(ctx).Send(a.raw)
	}}, nil
}

// beatACP answers with white space until there is an answer. Its status is sent,
// so a failure is an error of JSON-RPC.
func (s *Server) beatACP(r *rest.Request, body []byte, answer <-chan acpAnswer) {
	rest.Beat(s.rest, r, answer, acpAnswer{err: agents.ErrClosed}, func(a acpAnswer) []byte {
		if a.err != nil {
			return agents.Failure(body, a.err)
		}
		return a.raw
	})
}

func (s *Server) deleteACP(ctx context.Context, in *acpPath) (*struct{}, error) {
	host, err := s.agents.get(ctx)
	if err == nil {
		err = host.Delete(ctx, in.ID)
	}
	if err != nil {
		return nil, acpError(err, in.ID, "")
	}
	return nil, nil //nolint:nilnil // huma's answer without a body
}

type acpFollow struct {
	ACPPath
	Replay string `query:"replay" pattern:"^(none|all|[0-9]+)$" doc:"Without Last-Event-ID: none, all, or the last event that was seen"`
	From   string `query:"from" pattern:"^[0-9]+$" doc:"Without Last-Event-ID: the first event to send"`

	LastEventID string `header:"Last-Event-ID" doc:"Number of the last event seen: the ones after it come first"`

	accept string
}

// Resolve keeps what sandbox-agent looks at first.
func (in *acpFollow) Resolve(ctx huma.Context) []error {
	in.accept = rest.RequestOf(ctx).Fiber.Get(fiber.HeaderAccept)
	return nil
}

// replay is where to begin.
func (in *acpFollow) replay() (agents.Replay, error) {
	if !rest.Accepts(in.accept, rest.EventStream) {
		return agents.Replay{}, rest.NotAcceptable.Problem("not acceptable: accept must allow text/event-stream").
			With("details", map[string]any{"message": "accept must allow text/event-stream"})
	}
	number := func(name, text string) (int64, error) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return 0, rest.InvalidRequest.Problem("invalid request: " + name + " must be a positive integer")
		}
		return n, nil
	}
	var r agents.Replay
	var err error
	switch last := strings.TrimSpace(in.LastEventID); {
	case last != "" && last != "0":
		r.After, err = number("Last-Event-ID", last)
	case in.From != "":
		var from int64
		from, err = number("from", in.From)
		r.After, r.All = from-1, from <= 1
	case in.Replay == "none":
		r.None = true
	case in.Replay == "all", in.Replay == "0":
		r.All = true
	case in.Replay != "":
		r.After, err = number("replay", in.Replay)
	}
	return r, err
}
