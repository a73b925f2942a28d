package httpapi

import (
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/webrtc"
)

// viewer describes who asks to watch: where it comes from, and how it reached
// this server.
func (s *Server) viewer(r *request) webrtc.ViewerOptions {
	c := r.c
	o := webrtc.ViewerOptions{
		Host: s.gate.host(c), Remote: s.client(c),
		// Through a proxy only HTTP comes.
		TCP: s.fleet.TCP().Shares(c.Context().Conn()) && len(proxyHeaders(c)) == 0,
	}
	if r.grant != nil {
		o.Owner, o.Until = r.grant.ViewersOf(), r.grant.Context()
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
