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
		TCP: s.desktops.networks.sharing().Shares(c.Context().Conn()) && len(proxyHeaders(c)) == 0,
	}
	if r.grant != nil {
		o.Owner, o.Until = r.grant.viewersOf(), r.grant.ctx
	}
	return o
}

// viewersOf is the owner that the viewers of a token have: those of the server's
// own token and of admin tokens have none.
func (g *grant) viewersOf() string {
	if g == nil || g.scope == scopeAdmin {
		return ""
	}
	return g.ID
}

// sees says whether a token may see from where a viewer of that owner comes, and
// end it: the token's own viewers, or all, with the server's token or an admin one.
func (g *grant) sees(owner string) bool {
	own := g.viewersOf()
	return own == "" || own == owner
}

// proxyHeaders are those of a request that an HTTP proxy has put there.
func proxyHeaders(c *fiber.Ctx) []string {
	all := []string{
		fiber.HeaderForwarded, fiber.HeaderVia, fiber.HeaderXForwardedFor,
		fiber.HeaderXForwardedHost, fiber.HeaderXForwardedProto, "X-Real-Ip", "Cf-Ray",
	}
	return slices.DeleteFunc(all, func(name string) bool { return c.Get(name) == "" })
}
