package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/acp"
	"github.com/deskhand/deskhand/httpapi/internal/agents"
	"github.com/deskhand/deskhand/httpapi/internal/configuration"
	"github.com/deskhand/deskhand/httpapi/internal/desktops"
	"github.com/deskhand/deskhand/httpapi/internal/docsite"
	"github.com/deskhand/deskhand/httpapi/internal/files"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/opencomputer"
	"github.com/deskhand/deskhand/httpapi/internal/processes"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/httpapi/internal/sessions"
	"github.com/deskhand/deskhand/httpapi/internal/tokens"
	"github.com/deskhand/deskhand/internal/supervise"
)

type healthBody struct {
	Status string `json:"status" example:"ok"`
}

type healthOutput struct {
	Cache string `header:"Cache-Control"`
	Body  healthBody
}

func healthy(context.Context, *struct{}) (*healthOutput, error) {
	return &healthOutput{"no-store", healthBody{"ok"}}, nil
}

// register adds every route.
func (s *Server) register() {
	rest.Add(s.routes, rest.Route{
		ID: "getHealth", Method: http.MethodGet, Path: "/v1/health", Tag: "Server", Scope: grants.ScopeView,
		Summary: "Tell whether the server answers and the token is right",
	}, healthy)
	rest.Add(s.routes, rest.Route{
		ID: "getLive", Method: http.MethodGet, Path: "/livez", Tag: "Server", Open: true,
		Summary: "Tell whether the server answers",
	}, healthy)
	rest.Add(s.routes, rest.Route{
		ID: "getReady", Method: http.MethodGet, Path: "/readyz", Tag: "Server", Open: true,
		Summary: "Tell whether the server takes new work", Errors: []int{http.StatusServiceUnavailable},
	}, s.ready)
	s.desktops = desktops.Register(s.rest, s.desktopsConfig())
	s.processes = processes.Register(s.rest, processes.Config{
		Dir: s.processDir, DesktopEnviron: s.desktops.Environ, DesktopUser: s.cfg.DesktopUser,
		Environ: supervise.Inherit(s.cfg.EnvPolicy == desktop.EnvClean, s.cfg.Secrets...), Logger: s.log,
	})
	agents.Register(s.rest, agents.Config{Registry: s.registry, Servers: s.agents.Servers})
	s.acp = acp.Register(s.rest, acp.Config{Host: s.agents, Logger: s.log})
	sessions.Register(s.rest, sessions.Config{Host: s.agents, FolderProblem: configuration.Problem, Logger: s.log})
	opencomputer.Register(s.rest, s.agents)
	tokens.Register(s.rest, tokens.Config{Store: s.tokens, DesktopUser: s.cfg.users.desktop.Name, DesktopMenu: s.cfg.DesktopMenu})
	configuration.Register(s.rest, s.folders)
	files.Register(s.rest, s.files)
	s.registerRaw()
}

func (s *Server) desktopsConfig() desktops.Config {
	c := s.cfg
	return desktops.Config{
		Fleet: s.fleet, Tokens: s.tokens,
		Desktop: desktop.Config{
			EnvPolicy: c.EnvPolicy, Secrets: c.Secrets, ProgramMenu: c.DesktopMenu, ShareAuthority: true, NoQuiesce: c.NoQuiesce,
		},
		MaxBodyBytes: int64(c.MaxBodyBytes), Version: c.Version,
		AgentURL: c.AgentURL, AgentRelay: c.AgentRelay, MayMount: c.users.mayMount, AgentsUsing: s.agents.Using,
		Logger: s.log,
	}
}

func (s *Server) ready(ctx context.Context, in *struct{}) (*healthOutput, error) {
	select {
	case <-s.rest.Done():
		return nil, rest.Closing()
	default:
		return healthy(ctx, in)
	}
}

// registerRaw adds the routes that huma does not serve, and describes them.
func (s *Server) registerRaw() {
	describe := func(id, path, summary string, content map[string]*huma.MediaType) {
		op := s.rest.Operation(rest.Route{ID: id, Method: http.MethodGet, Path: path, Tag: "Server", Open: true, Summary: summary, Content: content})
		s.rest.Huma.OpenAPI().AddOperation(&op)
	}
	s.rest.Router().Get("/openapi.json", serveDocument)
	describe("getOpenAPI", "/openapi.json", "This document",
		map[string]*huma.MediaType{"application/openapi+json;version=3.1": {Schema: &huma.Schema{Type: huma.TypeObject}}})
	s.rest.Router().Get("/", s.serveRoot)
	describe("getRoot", "/", "Tell what this server is; browsers are sent to /ui/",
		map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: &huma.Schema{Type: huma.TypeObject}}})
	s.rest.Router().Get("/ui", s.serveUI)
	s.rest.Router().Get("/ui/*", s.serveUI)
	docsite.Register(s.rest)
}
