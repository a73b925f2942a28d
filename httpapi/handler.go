package httpapi

import (
	"net/http"

	"github.com/gofiber/fiber/v2"
)

// Mount adds the API's routes (/v1, /opencomputer, /opencode, /ui, /docs, /llms.txt,
// /openapi.json, /livez, /readyz and /metrics, but not /) to a fiber app. The app must set
// StreamRequestBody and DisablePreParseMultipartForm, and must not set WriteTimeout, GETOnly,
// DisableHeaderNormalizing or Prefork; otherwise Mount returns an error. It returns
// ErrClosed after Close. Close ends the streams, but not the app.
func (s *Server) Mount(app *fiber.App) error { return s.rest.Mount(app) }

// Handler returns the API as an http.Handler. Streams and WebSockets work. It has its own
// deadlines for bodies, which may take any time while bytes move. So the ReadTimeout of
// an http.Server applies to headers only. A WriteTimeout would cut event streams and
// large files off. After Close, the handler answers 503.
func (s *Server) Handler() http.Handler { return s.rest.Handler() }
