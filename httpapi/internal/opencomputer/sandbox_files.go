package opencomputer

import (
	"net/http"
	"os"
	"path/filepath"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// fileInfo is an entry of a directory.
type fileInfo struct {
	Name  string `json:"name"`
	IsDir bool   `json:"isDir"`
	Path  string `json:"path"`
	Size  int64  `json:"size"`
}

// fileSource is a file of the file system.
type fileSource struct{ *filesystem.File }

func (f fileSource) System() *os.File { return f.File.File() }

func (b *sandboxes) registerFiles(one string) {
	path := func(c *call) string { return c.at(c.Query("path")) }
	b.add(http.MethodGet, one+"/files", func(c *call) (any, error) {
		f, err := b.files.OpenFile(path(c))
		if err != nil {
			return nil, err
		}
		e := f.Entry()
		out := &rest.FileOutput{ContentType: fiber.MIMEOctetStream, ETag: f.ETag()}
		out, err = b.SendFile(out, fileSource{f}, e.Size, e.Modified, &rest.Conditions{}, c.Request)
		if err != nil {
			return nil, err
		}
		return func() {
			c.SetHeader(fiber.HeaderContentType, out.ContentType)
			out.Body(c.Request)
		}, nil
	})
	b.add(http.MethodPut, one+"/files", func(c *call) (any, error) {
		content, err := b.Upload(c.Request)
		if err != nil {
			return nil, err
		}
		defer content.Close()
		_, err = b.files.Write(c.ctx, path(c), content, filesystem.WriteOptions{})
		return nil, err
	})
	b.add(http.MethodDelete, one+"/files", func(c *call) (any, error) {
		if filepath.Clean(path(c)) == filepath.Clean(c.at("")) {
			return nil, rest.InvalidField("path", "path must name a file or a directory in the sandbox; DELETE /sandboxes/{id} removes the sandbox")
		}
		ctx, stop := rest.UntilGone(c.ctx, c.Fiber)
		defer stop()
		return nil, b.files.Remove(ctx, path(c), true)
	})
	b.add(http.MethodPost, one+"/files/mkdir", func(c *call) (any, error) { return nil, b.files.Mkdir(path(c)) })
	b.add(http.MethodGet, one+"/files/list", func(c *call) (any, error) {
		page, err := b.files.List(c.ctx, path(c), filesystem.ListOptions{})
		if err != nil {
			return nil, err
		}
		all := []fileInfo{}
		for _, e := range page.Entries {
			all = append(all, fileInfo{rest.JSONPath(e.Name), e.Type == filesystem.TypeDirectory, rest.JSONPath(e.Path), e.Size})
		}
		return all, nil
	})
}
