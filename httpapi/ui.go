package httpapi

import (
	"embed"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// page is the web page at /ui/.
//
//go:embed ui
var page embed.FS

// pageFiles are all files of the page, by their names below /ui/.
var pageFiles = sync.OnceValues(func() (map[string]*rest.StaticFile, error) {
	files := map[string]*rest.StaticFile{}
	err := fs.WalkDir(page, "ui", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := page.ReadFile(name)
		if err != nil {
			return err
		}
		files[strings.TrimPrefix(name, "ui/")], err = rest.NewStaticFile(name, data)
		return err
	})
	return files, err
})

// pagePolicy lets the page use nothing but itself and this server, and no other
// site show it in a frame, where it could be made to be clicked unknowingly.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; " +
	"connect-src 'self'%; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// hostSource is what may stand as a host in a policy; IPv6 addresses may not.
var hostSource = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?$`)

// policyFor is the policy of the page under the name by which it was reached.
// Not every browser takes WebSockets to be of the same origin.
func policyFor(host string) string {
	sockets := ""
	if hostSource.MatchString(host) {
		sockets = " ws://" + host + " wss://" + host
	}
	return strings.Replace(pagePolicy, "%", sockets, 1)
}

// pagePermissions are those that the page uses, for itself alone.
const pagePermissions = "clipboard-read=(self), clipboard-write=(self), fullscreen=(self), camera=(), microphone=(), geolocation=()"

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
	files, err := pageFiles()
	if err != nil {
		return err
	}
	f := files[name]
	if f == nil {
		return fiber.ErrNotFound
	}
	c.Set(fiber.HeaderContentSecurityPolicy, policyFor(s.rest.Gate.Host(c)))
	c.Set(fiber.HeaderPermissionsPolicy, pagePermissions)
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	f.Send(c)
	return nil
}
