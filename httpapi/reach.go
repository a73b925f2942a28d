package httpapi

import (
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/webrtc"
)

// viewer describes who asks to watch: where it comes from, and how it reached
// this server.
func (s *Server) viewer(r *rest.Request) webrtc.ViewerOptions {
	c := r.Fiber
	o := webrtc.ViewerOptions{
		Host: s.rest.Gate.Host(c), Remote: s.rest.Client(c),
		// Through a proxy only HTTP comes.
		TCP: s.fleet.TCP().Shares(c.Context().Conn()) && len(proxyHeaders(c)) == 0,
	}
	if r.Grant != nil {
		o.Owner, o.Until = r.Grant.ViewersOf(), r.Grant.Context()
	}
	return o
}

// proxyHeaders are those of a request that an HTTP proxy has put there.
func proxyHeaders(c *fiber.Ctx) []string {
	all := []string{
		fiber.HeaderForwarded, fiber.HeaderVia, fiber.HeaderXForwardedFor,
		fiber.HeaderXForwardedHost, fiber.HeaderXForwardedProto, "X-Real-Ip", "Cf-Ray",
	}
	return slices.DeleteFunc(all, func(name string) bool { return c.Get(name) == "" })
}
