package httpapi

import (
	"embed"
	"io/fs"
	"mime"
	"path"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// page is the web page at /ui/.
//
//go:embed ui
var page embed.FS

// pagePolicy lets the page use nothing but itself and this server, and no other
// site show it in a frame, where it could be made to be clicked unknowingly.
const pagePolicy = "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"

// serveRoot tells programs what this is, and sends people to the page.
func (s *Server) serveRoot(c *fiber.Ctx) error {
	if c.Accepts(fiber.MIMEApplicationJSON, fiber.MIMETextHTML) == fiber.MIMETextHTML {
		return redirectToUI(c)
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	return c.JSON(map[string]string{
		// Name and docs as clients of the reference know them.
		"name": "Sandbox Agent", "docs": "https://sandboxagent.dev",
		"server": "deskhand", "ui": "/ui/", "openapi": "/openapi.json",
	})
}

// redirectToUI keeps the query: the token may be in it.
func redirectToUI(c *fiber.Ctx) error {
	to := "/ui/"
	if query := c.Context().URI().QueryString(); len(query) > 0 {
		to += "?" + string(query)
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	return c.Redirect(to, fiber.StatusFound)
}

// serveUI serves the page's files. Any other path without an extension is the
// page itself.
func (s *Server) serveUI(c *fiber.Ctx) error {
	if c.Path() == "/ui" {
		return redirectToUI(c)
	}
	name := strings.TrimPrefix(c.Path(), "/ui/")
	if path.Ext(name) == "" {
		name = "index.html"
	}
	data, err := fs.ReadFile(page, "ui/"+name) // refuses .. by itself
	if err != nil {
		return fiber.ErrNotFound
	}
	c.Set(fiber.HeaderContentType, mime.TypeByExtension(path.Ext(name)))
	c.Set(fiber.HeaderContentSecurityPolicy, pagePolicy)
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderCacheControl, "no-cache")
	c.Response().SetBodyRaw(data)
	return nil
}
