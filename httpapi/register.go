package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/acp"
	"github.com/deskhand/deskhand/httpapi/internal/agents"
	"github.com/deskhand/deskhand/httpapi/internal/browser"
	"github.com/deskhand/deskhand/httpapi/internal/configuration"
	"github.com/deskhand/deskhand/httpapi/internal/desktops"
	"github.com/deskhand/deskhand/httpapi/internal/docsite"
	"github.com/deskhand/deskhand/httpapi/internal/events"
	"github.com/deskhand/deskhand/httpapi/internal/files"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/metrics"
	"github.com/deskhand/deskhand/httpapi/internal/opencode"
	"github.com/deskhand/deskhand/httpapi/internal/opencomputer"
	"github.com/deskhand/deskhand/httpapi/internal/processes"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/httpapi/internal/secrets"
	"github.com/deskhand/deskhand/httpapi/internal/sessions"
	"github.com/deskhand/deskhand/httpapi/internal/tokens"
	"github.com/deskhand/deskhand/internal/supervise"
)

type healthBody struct {
	Status string `json:"status" example:"ok"`
	Scope  string `json:"scope,omitempty" doc:"Scope of the request's token; omitted for the server's own token"`

	Roots []string `json:"roots,omitempty" nullable:"false" doc:"Directories whose files the token reaches, for a token of the scope supervise"`
}

type healthOutput struct {
	Cache string `header:"Cache-Control"`
	Body  healthBody
}

func healthy(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	out := &healthOutput{"no-store", healthBody{Status: "ok"}}
	if g := rest.GrantOf(ctx); g != nil {
		out.Body.Scope, out.Body.Roots = g.Scope.String(), g.Roots
	}
	return out, nil
}

// register adds every route.
func (s *Server) register() {
	rest.Add(s.routes, rest.Route{
		ID: "getHealth", Method: http.MethodGet, Path: "/v1/health", Tag: "Server", Scope: grants.ScopeView,
		Summary: "Check that the server is alive and the token is valid",
	}, healthy)
	rest.Add(s.routes, rest.Route{
		ID: "getLive", Method: http.MethodGet, Path: "/livez", Tag: "Server", Open: true,
		Summary: "Check that the server is alive",
	}, healthy)
	rest.Add(s.routes, rest.Route{
		ID: "getReady", Method: http.MethodGet, Path: "/readyz", Tag: "Server", Open: true,
		Summary: "Check that the server accepts new work", Errors: []int{http.StatusServiceUnavailable},
	}, s.ready)
	s.desktops = desktops.Register(s.rest, s.desktopsConfig())
	history := events.NewHistory()
	publish := func(topic string) func(string, map[string]any) {
		return func(kind string, fields map[string]any) { history.Publish(topic, kind, fields) }
	}
	s.processes = processes.Register(s.rest, processes.Config{
		Publish: publish("processes"),
		Dir:     s.processDir, DesktopEnviron: s.desktops.Environ, DesktopUser: s.cfg.DesktopUser,
		Environ: supervise.Inherit(s.cfg.EnvPolicy == desktop.EnvClean, s.cfg.Secrets...), Secrets: s.cfg.NamedSecrets, Logger: s.log,
	})
	browser.Register(s.rest, browser.Config{
		Fleet: s.fleet, Enter: desktops.Enter(s.desktops), DesktopProblem: desktops.Problem, UploadDirs: s.cfg.uploadDirs(), Logger: s.log,
	})
	agents.Register(s.rest, agents.Config{Registry: s.registry, Servers: s.agents.Servers, CanStart: s.agents.CanStart})
	s.acp = acp.Register(s.rest, acp.Config{Host: s.agents, Logger: s.log})
	sessionsConfig := sessions.Config{Host: s.agents, FolderProblem: configuration.Problem, Logger: s.log}
	sessions.Register(s.rest, sessionsConfig)
	opencomputer.Register(s.rest, opencomputer.Config{Host: s.agents, Files: s.files, Processes: s.processes.Manager, Problem: machineProblem})
	opencode.Register(s.rest, s.openCodeConfig())
	s.reach = files.NewReach(s.files, s.ownDirs)
	tokens.Register(s.rest, tokens.Config{Store: s.tokens, CheckRoot: s.reach.CheckRoot, DesktopUser: s.cfg.users.desktop.Name, AgentUser: s.cfg.users.agent.Name, DesktopMenu: s.cfg.DesktopMenu})
	secrets.Register(s.rest, s.cfg.NamedSecrets)
	configuration.Register(s.rest, s.folders, publish("config"))
	events.Register(s.rest, events.Config{
		Topics:  []events.Topics{desktops.Topics(s.desktops), sessions.Topics(sessionsConfig), history.Topics("processes", "config")},
		Enter:   func(r *rest.Request) (func(), *rest.Problem) { return desktops.EnterStream(s.desktops, r) },
		Release: func(g *grants.Grant, holder string) { desktops.ReleaseControl(s.desktops, g, holder) },
	})
	files.Register(s.rest, s.reach)
	metrics.Register(s.rest, s.metrics, metrics.Config{
		Fleet: s.fleet, Agents: s.agents.Started, Processes: s.processes.List, Streams: s.rest.OpenStreams, Connections: func() int { return rest.OpenConnections(s.rest) },
	})
	s.registerRaw()
}

func (s *Server) openCodeConfig() opencode.Config {
	return opencode.Config{
		Host: s.agents, Registry: s.registry, Files: s.files, Folders: s.folders, Processes: s.processes.Manager,
		AgentUser: s.cfg.users.agent.Name, SettingsDir: s.agentDir, Version: s.cfg.Version, Logger: s.log,
		Problem: machineProblem,
	}
}

// machineProblem returns the problem for an error of files, processes or folders, or nil.
func machineProblem(err error) *rest.Problem {
	return cmp.Or(files.Problem(err), configuration.Problem(err), processes.Problem(err))
}

func (s *Server) desktopsConfig() desktops.Config {
	c := s.cfg
	return desktops.Config{
		Fleet: s.fleet, Draining: s.draining.Load, OnFrame: s.metrics.Frame, MaxDesktops: cmp.Or(c.MaxDesktops, DefaultMaxDesktops), MaxViewers: c.MaxViewers, Tokens: s.tokens, UploadDirs: c.uploadDirs(),
		Desktop: desktop.Config{
			EnvPolicy: c.EnvPolicy, Secrets: c.Secrets, ProgramMenu: c.DesktopMenu, ShareAuthority: true, NoQuiesce: c.NoQuiesce,
			SecretValue: c.NamedSecrets.Value, Observe: s.operation,
		},
		MaxBodyBytes: int64(c.MaxBodyBytes), Version: c.Version, Tracer: s.tracer,
		Secrets: c.NamedSecrets, AgentURL: c.AgentURL, AgentRelay: c.AgentRelay, MayMount: c.users.mayMount, AgentsUsing: s.agents.Using,
		Logger: s.log,
	}
}

func (s *Server) ready(ctx context.Context, in *struct{}) (*healthOutput, error) {
	select {
	case <-s.rest.Done():
		return nil, rest.Closing()
	default:
	}
	if s.draining.Load() {
		return nil, rest.Closing()
	}
	return healthy(ctx, in)
}

// registerRaw adds the routes that huma does not serve, and describes them.
func (s *Server) registerRaw() {
	describe := func(id, path, summary string, content map[string]*huma.MediaType) {
		op := s.rest.Operation(rest.Route{ID: id, Method: http.MethodGet, Path: path, Tag: "Server", Open: true, Summary: summary, Content: content})
		s.rest.Huma.OpenAPI().AddOperation(&op)
	}
	s.rest.Router().Get("/openapi.json", serveDocument)
	describe("getOpenAPI", "/openapi.json", "Get this document",
		map[string]*huma.MediaType{"application/openapi+json;version=3.1": {Schema: &huma.Schema{Type: huma.TypeObject}}})
	s.rest.Router().Get("/", s.serveRoot)
	describe("getRoot", "/", "Get the name and links of the server; redirects browsers to /ui/",
		map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: &huma.Schema{Type: huma.TypeObject}}})
	s.rest.Router().Get("/ui", s.serveUI)
	s.rest.Router().Get("/ui/*", s.serveUI)
	docsite.Register(s.rest)
}
