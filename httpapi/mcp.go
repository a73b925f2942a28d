package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

const mcpPath = "/v1/mcp"

const aboutMCP = `A server of the Model Context Protocol, streamable HTTP without sessions: each POST is answered with one
JSON document. Its tools take screenshots and act; an agent's configuration needs this URL and the token as bearer token.
Who acts is named by the header Deskhand-Actor, the token's name, or the MCP client, in this order.`

// mcpHeaders are those by which the transport goes.
var mcpHeaders = []string{
	fiber.HeaderAccept, fiber.HeaderContentType, "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-ID",
}

type mcpPost struct {
	Desktop string `query:"desktop" default:"main" doc:"Id of the desktop"`
	RawBody []byte

	request *rest.Request
}

// Resolve keeps the request.
func (in *mcpPost) Resolve(ctx huma.Context) []error {
	in.request = rest.RequestOf(ctx)
	return nil
}

type mcpAnswer struct{ Body func(huma.Context) }

func (s *Server) registerMCP() {
	message := map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: &huma.Schema{
		Type: huma.TypeObject, Description: "A message of JSON-RPC 2.0", AdditionalProperties: true,
	}}}
	rest.Add(s.routes, rest.Route{
		ID: "postMCP", Method: http.MethodPost, Path: mcpPath, Tag: "Agents", Scope: grants.ScopeAgent, Most: mostMCP,
		Summary: "Use a desktop as tools of the Model Context Protocol", About: aboutMCP,
		Errors:  []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict},
		Body:    &huma.RequestBody{Required: true, Content: message},
		Content: message,
		More:    map[string]*huma.Response{"202": {Description: "A notification was taken"}},
	}, s.postMCP)
}

// mostMCP is how large a message may be: its largest is a text for the clipboard.
const mostMCP = 8 << 20

func (s *Server) postMCP(ctx context.Context, in *mcpPost) (*mcpAnswer, error) {
	if err := jsonlimit.CheckBody(in.RawBody); err != nil {
		return nil, rest.InvalidRequest.Problem("invalid request: the message " + err.Error())
	}
	inst, actor, bad := s.visit(in.request, in.Desktop, s.fleet.Find)
	if bad != nil {
		return nil, bad
	}
	d, err := running(inst)
	if err != nil {
		return nil, err
	}
	server, err := s.mcp.of(s, inst, d)
	if err != nil {
		return nil, err
	}
	if actor.Name != "" {
		actor.Kind = desktop.ActorAgent // else the client's name is used
		ctx = desktop.WithActor(ctx, actor)
	}
	ctx, stop := rest.UntilGone(ctx, in.request.Fiber)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, mcpPath, bytes.NewReader(bytes.Clone(in.RawBody)))
	if err != nil {
		return nil, err
	}
	for _, name := range mcpHeaders {
		if v := in.request.Fiber.Get(name); v != "" {
			r.Header.Set(name, v)
		}
	}
	w := &collected{header: http.Header{}}
	server.ServeHTTP(w, r)
	if err := ctx.Err(); err != nil { // the token has ended, or the client has closed the connection
		return nil, err
	}
	if kind := w.header.Get(fiber.HeaderContentType); w.status >= http.StatusBadRequest && !strings.HasPrefix(kind, fiber.MIMEApplicationJSON) {
		k := rest.InvalidRequest
		k.Status, k.Title = w.status, http.StatusText(w.status)
		return nil, k.Problem("invalid request: " + strings.TrimSpace(w.body.String()))
	}
	return &mcpAnswer{Body: func(ctx huma.Context) {
		for _, name := range []string{fiber.HeaderContentType, fiber.HeaderAllow, "Mcp-Protocol-Version"} {
			if v := w.header.Get(name); v != "" {
				ctx.SetHeader(name, v)
			}
		}
		ctx.SetStatus(max(w.status, http.StatusOK))
		rest.RequestOf(ctx).Send(w.body.Bytes())
	}}, nil
}

// collected is an answer of a net/http handler that is one document. Nothing of
// it is sent before it is whole.
type collected struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *collected) Header() http.Header { return w.header }

func (w *collected) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *collected) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// mcpServers are the desktops as MCP servers.
type mcpServers struct {
	mu  sync.Mutex // guards what follows
	all []mcpServer
}

type mcpServer struct {
	instance *fleet.Instance
	desk     Desktop
	server   *computer.Server
}

// of returns the server of a desktop. One is made for each life of it; those of
// desktops that are gone are forgotten then.
func (m *mcpServers) of(s *Server, inst *fleet.Instance, d Desktop) (*computer.Server, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, have := range m.all {
		if have.instance == inst && have.desk == d {
			return have.server, nil
		}
	}
	server, err := computer.NewServer(d, computer.Config{Version: s.cfg.Version, Logger: s.log})
	if err != nil {
		return nil, fmt.Errorf("offer the desktop as tools: %w", err)
	}
	there := s.fleet.List()
	m.all = slices.DeleteFunc(m.all, func(have mcpServer) bool { return have.instance == inst || !slices.Contains(there, have.instance) })
	m.all = append(m.all, mcpServer{inst, d, server})
	return server, nil
}
