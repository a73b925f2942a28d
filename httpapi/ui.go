package httpapi

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
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

// builtPage is the page as browsers load it. Its files are below a prefix that names their
// content, so that browsers keep them, and a reload asks for the page itself alone.
type builtPage struct {
	files  map[string]*rest.StaticFile
	prefix string           // such as "_0123456789abcdef/"
	index  *rest.StaticFile // index.html, which names the files by that prefix
}

var pageBuilt = sync.OnceValues(func() (*builtPage, error) {
	files, err := pageFiles()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name].Data))
		sum.Write(files[name].Data)
	}
	b := &builtPage{files: files, prefix: "_" + hex.EncodeToString(sum.Sum(nil)[:8]) + "/"}
	b.index, err = rest.NewStaticFile("index.html", b.buildIndex(files["index.html"].Data))
	return b, err
})

var (
	pageLink   = regexp.MustCompile(`(href|src)="([^"#:?]+)"`)
	headEnd    = []byte("</head>")
	importFrom = regexp.MustCompile(`(?m)^(?:import|export)\b[^;"'(]*"(\.[^"]+)"`)
)

// buildIndex returns index.html with the prefix in its links to files of the page, and with
// a preload of each module that main.js imports statically. Without that the browser would
// find the modules level by level, each after a round trip.
func (b *builtPage) buildIndex(html []byte) []byte {
	html = pageLink.ReplaceAllFunc(html, func(link []byte) []byte {
		m := pageLink.FindSubmatch(link)
		if b.files[string(m[2])] == nil {
			return link
		}
		return fmt.Appendf(nil, `%s="%s%s"`, m[1], b.prefix, m[2])
	})
	var preloads []byte
	for _, name := range b.modules("main.js")[1:] {
		preloads = fmt.Appendf(preloads, "<link rel=\"modulepreload\" href=\"%s%s\">\n", b.prefix, name)
	}
	return bytes.Replace(html, headEnd, append(preloads, headEnd...), 1)
}

// modules returns the names of a module and of the modules that it imports statically.
func (b *builtPage) modules(first string) []string {
	all := []string{first}
	for i := 0; i < len(all); i++ {
		for _, m := range importFrom.FindAllSubmatch(b.files[all[i]].Data, -1) {
			name := path.Join(path.Dir(all[i]), string(m[1]))
			if b.files[name] != nil && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

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

// serveRoot describes the server to programs, and sends people to the page.
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
	built, err := pageBuilt()
	if err != nil {
		return err
	}
	name, versioned := strings.CutPrefix(strings.TrimPrefix(c.Path(), "/ui/"), built.prefix)
	f := built.files[name]
	switch {
	case versioned:
	case name == "index.html", path.Ext(name) == "" && !strings.HasPrefix(name, "_"):
		f = built.index
	}
	if f == nil {
		return fiber.ErrNotFound
	}
	c.Set(fiber.HeaderContentSecurityPolicy, policyFor(s.rest.Gate.Host(c)))
	c.Set(fiber.HeaderPermissionsPolicy, pagePermissions)
	c.Set("Cross-Origin-Opener-Policy", "same-origin") // another site could change the token in the address
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	if versioned {
		f.SendImmutable(c)
	} else {
		f.Send(c)
	}
	return nil
}
