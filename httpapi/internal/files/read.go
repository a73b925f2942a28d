package files

import (
	"context"
	"net/http"
	"os"
	"path"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type readInput struct {
	PathQuery
	Download bool `query:"download" doc:"Make browsers save the file under its name"`
	rest.Conditions
}

func (a *area) registerReading(r rest.Route) {
	r = r.Get("readFile", "/v1/fs/file", "Download a file").WithErrors(http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable)
	r.Query = true
	r.About = "Supports ranges and conditional requests (RFC 9110). HEAD returns the size and the entity tag."
	whole := binaryFile()
	r.Content = whole
	r.More = map[string]*huma.Response{
		"206": {Description: "The requested range", Content: whole},
		"304": {Description: http.StatusText(http.StatusNotModified)},
	}
	rest.Add(a.Group, r, a.readFile)
}

// binaryFile describes the content of a file.
func binaryFile() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{fiber.MIMEOctetStream: rest.Binary()}
}

func (a *area) readFile(ctx context.Context, in *readInput) (*rest.FileOutput, error) {
	files, err := a.in(ctx, in.RootQuery)
	if err != nil {
		return nil, err
	}
	f, err := files.OpenFile(in.Path)
	if err != nil {
		return nil, err
	}
	e := f.Entry()
	out := &rest.FileOutput{ContentType: fiber.MIMEOctetStream, ETag: f.ETag(), Cache: "private, no-cache"}
	if in.Download {
		out.Disposition = rest.Attachment(path.Base(e.Path))
	}
	return a.SendFile(out, fileSource{f}, e.Size, e.Modified, &in.Conditions, rest.RequestIn(ctx))
}

// fileSource is a file of the file system.
type fileSource struct{ *filesystem.File }

func (f fileSource) System() *os.File { return f.File.File() }
