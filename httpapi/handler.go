package httpapi

import (
	"net/http"

	"github.com/gofiber/fiber/v2"
)

// Mount adds the API's routes (/v1, /opencomputer, /ui, /docs, /llms.txt, /openapi.json, /livez and /readyz, but
// not /) to a fiber app. Requests are read as that app is configured, so it is
// an error when that would break streams or bodies. Close ends the streams, but
// not that app.
func (s *Server) Mount(app *fiber.App) error { return s.rest.Mount(app) }

// Handler returns the API as an http.Handler. Streams and WebSockets pass. It
// has its own deadlines for bodies, which may take any time as long as they move,
// so that the ReadTimeout of an http.Server counts for headers only; a
// WriteTimeout would cut event streams and large files off.
func (s *Server) Handler() http.Handler { return s.rest.Handler() }
