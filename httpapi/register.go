package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
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
	s.api.UseMiddleware(s.findInstance)
	add(s, route{
		id: "getHealth", method: http.MethodGet, path: "/v1/health", tag: "Server", scope: grants.ScopeView,
		summary: "Tell whether the server answers and the token is right",
	}, healthy)
	add(s, route{
		id: "getLive", method: http.MethodGet, path: "/livez", tag: "Server", open: true,
		summary: "Tell whether the server answers",
	}, healthy)
	add(s, route{
		id: "getReady", method: http.MethodGet, path: "/readyz", tag: "Server", open: true,
		summary: "Tell whether the server takes new work", errors: []int{http.StatusServiceUnavailable},
	}, s.ready)
	s.registerLifecycle()
	s.registerScreenshots()
	s.registerMouse()
	s.registerKeyboard()
	s.registerClipboard()
	s.registerWindows()
	s.registerLaunch()
	s.registerDisplay()
	s.registerEvents()
	s.registerStream()
	s.registerControl()
	s.registerRecording()
	s.registerProcesses()
	s.registerAgents()
	s.registerACP()
	s.registerTransport()
	s.registerSessions()
	s.registerOpenComputer()
	s.registerMCP()
	s.registerTokens()
	s.registerConfiguration()
	s.registerFiles()
	s.registerRaw()
}

func (s *Server) ready(ctx context.Context, in *struct{}) (*healthOutput, error) {
	select {
	case <-s.closing:
		return nil, shuttingDown.problem("the server is shutting down")
	default:
		return healthy(ctx, in)
	}
}

// registerRaw adds the routes that huma does not serve, and describes them.
func (s *Server) registerRaw() {
	describe := func(id, path, summary string, content map[string]*huma.MediaType) {
		op := s.operation(route{id: id, method: http.MethodGet, path: path, tag: "Server", open: true, summary: summary, content: content})
		s.api.OpenAPI().AddOperation(&op)
	}
	s.app.Get("/openapi.json", serveDocument)
	describe("getOpenAPI", "/openapi.json", "This document",
		map[string]*huma.MediaType{"application/openapi+json;version=3.1": {Schema: &huma.Schema{Type: huma.TypeObject}}})
	s.app.Get("/", s.serveRoot)
	describe("getRoot", "/", "Tell what this server is; browsers are sent to /ui/",
		map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: &huma.Schema{Type: huma.TypeObject}}})
	s.app.Get("/ui", s.serveUI)
	s.app.Get("/ui/*", s.serveUI)
}
