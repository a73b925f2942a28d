package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
)

// page is the web page at /ui/.
//
//go:embed ui
var page embed.FS

// pageTypes are the types of the page's files. Go's own table is not used: it
// takes in the system's, which may say that scripts are plain text.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// pageFile is a file of the page as it is sent.
type pageFile struct {
	kind, tag string
	data, zip []byte
}

// pageFiles are all files of the page, by their names below /ui/.
var pageFiles = sync.OnceValues(func() (map[string]*pageFile, error) {
	files := map[string]*pageFile{}
	err := fs.WalkDir(page, "ui", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := page.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		f := &pageFile{kind: pageTypes[path.Ext(name)], tag: hex.EncodeToString(sum[:8]), data: data}
		files[strings.TrimPrefix(name, "ui/")] = f
		f.zip, err = zipped(data)
		return err
	})
	return files, err
})

func zipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
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
	f.send(c)
	return nil
}

// send sends the file, or says that the client has it. It is asked for every
// time: a new version of the program has another page under the same names.
func (f *pageFile) send(c *fiber.Ctx) {
	data, tag := f.data, `"`+f.tag+`"`
	if c.AcceptsEncodings("gzip", "identity") == "gzip" {
		data, tag = f.zip, `"`+f.tag+`-z"`
		c.Set(fiber.HeaderContentEncoding, "gzip")
	}
	c.Vary(fiber.HeaderAcceptEncoding)
	c.Set(fiber.HeaderCacheControl, "no-cache")
	c.Set(fiber.HeaderETag, tag)
	c.Set(fiber.HeaderContentType, f.kind)
	for known := range strings.SplitSeq(c.Get(fiber.HeaderIfNoneMatch), ",") {
		if strings.TrimPrefix(strings.TrimSpace(known), "W/") == tag {
			c.Status(fiber.StatusNotModified)
			return
		}
	}
	c.Response().SetBodyRaw(data)
}
