package rest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// staticTypes has the types of static files by their extensions. Package mime is not used,
// because it reads the system's table, which may say that scripts are plain text.
var staticTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".md":   "text/markdown; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// StaticFile is a file of the program's own that the server sends.
type StaticFile struct {
	Type string // Content-Type; empty if the extension is unknown
	Data []byte
	zip  []byte
	tag  string
}

// NewStaticFile returns a file with the type that the extension of its name has.
func NewStaticFile(name string, data []byte) (*StaticFile, error) {
	var zip bytes.Buffer
	w, err := gzip.NewWriterLevel(&zip, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &StaticFile{staticTypes[path.Ext(name)], data, zip.Bytes(), hex.EncodeToString(sum[:8])}, nil
}

// Send sends the file, or 304 if the client has it. Clients ask every time, because a new
// version of the program has other files under the same names.
func (f *StaticFile) Send(c *fiber.Ctx) { f.send(c, "no-cache") }

// SendImmutable is like Send for a URL whose content never changes. Clients keep the file and
// do not ask again.
func (f *StaticFile) SendImmutable(c *fiber.Ctx) { f.send(c, "public, max-age=31536000, immutable") }

func (f *StaticFile) send(c *fiber.Ctx, cache string) {
	data, tag := f.Data, `"`+f.tag+`"`
	if c.AcceptsEncodings("gzip", "identity") == "gzip" {
		data, tag = f.zip, `"`+f.tag+`-z"`
		c.Set(fiber.HeaderContentEncoding, "gzip")
	}
	c.Vary(fiber.HeaderAcceptEncoding)
	c.Set(fiber.HeaderCacheControl, cache)
	c.Set(fiber.HeaderETag, tag)
	c.Set(fiber.HeaderContentType, f.Type)
	for known := range strings.SplitSeq(c.Get(fiber.HeaderIfNoneMatch), ",") {
		if strings.TrimPrefix(strings.TrimSpace(known), "W/") == tag {
			c.Status(fiber.StatusNotModified)
			return
		}
	}
	c.Response().SetBodyRaw(data)
}
