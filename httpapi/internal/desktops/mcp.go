package desktops

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

const mcpPath = "/v1/mcp"

const aboutMCP = `A server of the Model Context Protocol over streamable HTTP without sessions: the response to a POST is one JSON
document. Its tools take screenshots and send input. An agent's configuration needs this URL, and the token as bearer token.
The actor's name is the header Deskhand-Actor, the token's name, or the name of the MCP client, in this order.`

// mcpHeaders are those by which the transport goes.
var mcpHeaders = []string{
	fiber.HeaderAccept, fiber.HeaderContentType, "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-ID",
}

type mcpInput struct {
	Desktop string `query:"desktop" default:"main" doc:"Id of the desktop"`
	RawBody []byte
}

type mcpOutput struct{ Body func(huma.Context) }

func (a *Area) registerMCP() {
	message := map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: &huma.Schema{
		Type: huma.TypeObject, Description: "A JSON-RPC 2.0 message", AdditionalProperties: true,
	}}}
	rest.Add(a.Group, rest.Route{
		ID: "postMCP", Method: http.MethodPost, Path: mcpPath, Tag: "Agents", Scope: grants.ScopeAgent, Most: mostMCP, UntilGone: true,
		Summary: "Call the tools of a desktop (Model Context Protocol)", About: aboutMCP,
		Errors:  []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict},
		Body:    &huma.RequestBody{Required: true, Content: message},
		Content: message,
		More:    map[string]*huma.Response{"202": {Description: "The notification was accepted"}},
	}, a.postMCP)
}

// mostMCP is how large a message may be: its largest is a text for the clipboard.
const mostMCP = 8 << 20

func (a *Area) postMCP(ctx context.Context, in *mcpInput) (*mcpOutput, error) {
	if err := jsonlimit.CheckBody(in.RawBody); err != nil {
		return nil, rest.InvalidRequest.Problem("invalid request: the message " + err.Error())
	}
	request := rest.RequestIn(ctx)
	actor, err := a.actor(request, in.Desktop, a.fleet.Find)
	if err != nil {
		return nil, err
	}
	inst, err := use(ctx, a, in.Desktop)
	if err != nil {
		return nil, err
	}
	defer inst.Use()
	d, err := running[computer.Desktop](a, in.Desktop)
	if err != nil {
		return nil, err
	}
	server, err := a.mcpServer(in.Desktop, d)
	if err != nil {
		return nil, err
	}
	actor.Kind = desktop.ActorAgent // without a name, it gets the client's
	ctx = desktop.WithActor(ctx, actor)
	if request.Fiber.Get(typingHeader) != "" {
		ctx = desktop.WithPerson(ctx)
	}
	if ctx, err = withControlWait(ctx, request); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, mcpPath, bytes.NewReader(in.RawBody))
	if err != nil {
		return nil, err
	}
	for _, name := range mcpHeaders {
		if v := request.Fiber.Get(name); v != "" {
			r.Header.Set(name, v)
		}
	}
	w := &collected{header: http.Header{}}
	server.ServeHTTP(w, r)
	if err := ctx.Err(); err != nil { // the token has ended, or the client has closed the connection
		return nil, err
	}
	kind := w.header.Get(fiber.HeaderContentType)
	if w.status >= http.StatusBadRequest && !strings.HasPrefix(kind, fiber.MIMEApplicationJSON) {
		k := rest.InvalidRequest
		k.Status, k.Title = w.status, http.StatusText(w.status)
		return nil, k.Problem("invalid request: " + strings.TrimSpace(w.body.String()))
	}
	return &mcpOutput{func(ctx huma.Context) {
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

// mcpServers holds the desktops as MCP servers.
type mcpServers struct {
	mu  sync.Mutex           // guards the fields below
	all map[string]mcpServer // by the id of the desktop
}

type mcpServer struct {
	desk   computer.Desktop
	server *computer.Server
}

// mcpServer returns the server of a running desktop. One is made for each of its starts.
// The servers of desktops that are gone are forgotten then.
func (a *Area) mcpServer(id string, d computer.Desktop) (*computer.Server, error) {
	m := &a.mcp
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.all[id]; have.desk == d {
		return have.server, nil
	}
	server, err := computer.NewServer(d, computer.Config{Elements: batchElements{a, id}, Browser: useBrowser(a, id), Version: a.cfg.Version, Activity: a.tracker(id, d), Tracer: a.cfg.Tracer, Logger: a.cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("offer the desktop as tools: %w", err)
	}
	maps.DeleteFunc(m.all, func(id string, _ mcpServer) bool {
		_, err := a.fleet.Find(id)
		return err != nil
	})
	m.all[id] = mcpServer{d, server}
	return server, nil
}

// FindForAgent returns an error if there is no such desktop or agents may not have it.
func (a *Area) FindForAgent(id string) error {
	if _, err := a.fleet.Find(id); err != nil {
		return a.ProblemOf(err, rest.Internal)
	}
	return a.cfg.MayMount()
}

// Mount returns how an agent that runs here reaches a desktop: by tools, over HTTP or, if
// the agent can only start programs, by a program that relays; and by the variables that X
// programs need. It starts the desktop if that does not run.
func (a *Area) Mount(ctx, process context.Context, desktopID, agent string) (agents.Mount, error) {
	if err := a.FindForAgent(desktopID); err != nil {
		return agents.Mount{}, err
	}
	d, err := a.Start(ctx, desktopID)
	if err != nil {
		return agents.Mount{}, err
	}
	out := agents.Mount{Env: displayEnv(d)}
	if agent == "claude" {
		// It would hide the tools behind a search, which models seldom make.
		out.Env = append(out.Env, "ENABLE_TOOL_SEARCH=false")
	}
	base := cmp.Or(a.cfg.AgentURL, a.ListenURL())
	if base == "" {
		return out, nil // there is no listener, so the tools cannot be reached
	}
	token, err := a.cfg.Tokens.AgentToken(process, desktopID, agent)
	if err != nil {
		return agents.Mount{}, err
	}
	at := strings.TrimSuffix(base, "/") + mcpPath + "?desktop=" + url.QueryEscape(desktopID)
	out.Servers = []agents.MCPServer{{Name: mountName, URL: at, Headers: map[string]string{"Authorization": "Bearer " + token}}}
	if relay := a.cfg.AgentRelay; len(relay) > 0 {
		out.Servers = append(out.Servers, agents.MCPServer{
			Name: mountName, Command: relay[0],
			Args: append(slices.Clone(relay[1:]), "--endpoint", base, "--desktop", desktopID),
			Env:  map[string]string{"DESKHAND_TOKEN": token},
		})
	}
	return out, nil
}

// mountName is the name that agents have for the desktop's tools.
const mountName = "desktop"

// displayEnv returns what a program needs in its environment to be on a desktop.
func displayEnv(d fleet.Desktop) []string {
	st := d.Status()
	env := []string{"DISPLAY=" + st.Display, "XAUTHORITY=" + st.Authority}
	full, ok := d.(interface{ Environ() ([]string, error) })
	if !ok {
		return env
	}
	all, err := full.Environ()
	if err != nil {
		return env // it is being restarted; display and authority stay
	}
	for _, kv := range all {
		if strings.HasPrefix(kv, "DBUS_SESSION_BUS_ADDRESS=") {
			env = append(env, kv)
		}
	}
	return env
}
