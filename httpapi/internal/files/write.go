package files

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type writeInput struct {
	PathQuery
	Append       bool   `query:"append" doc:"Append to the file instead of replacing it"`
	Sync         bool   `query:"sync" default:"true" doc:"Respond after the file is synced to disk; with false, a power failure may lose it"`
	Mode         string `query:"mode" doc:"Permission bits in octal, such as 755; defaults to the current ones"`
	IfMatch      string `header:"If-Match" doc:"Fail with 412 unless the file has this entity tag; * matches any existing file"`
	IfNoneMatch  string `header:"If-None-Match" doc:"With *, fail with 412 if the file exists"`
	ContentRange string `header:"Content-Range" doc:"Not supported: the request is rejected, since the body would replace the whole file"`
}

type writeOutput struct {
	Body struct {
		FilePath
		BytesWritten int64 `json:"bytesWritten"`
	}
}

func (a *area) registerWriting(r rest.Route) {
	r.ID, r.Method, r.Path = "writeFile", http.MethodPut, "/v1/fs/file"
	r.Summary = "Upload a file"
	r.About = "The body is the content, of any type and size. The file is replaced atomically after the whole body has arrived. " +
		"Missing parent directories are created."
	r.Body = &huma.RequestBody{Required: true, Content: binaryFile()}
	r.Errors = append(slices.Clip(r.Errors), http.StatusConflict, http.StatusPreconditionFailed, http.StatusInternalServerError, http.StatusInsufficientStorage)
	rest.Add(a.Group, r, a.writeFile)
}

func (a *area) writeFile(ctx context.Context, in *writeInput) (*writeOutput, error) {
	files, err := a.in(ctx, in.RootQuery)
	if err != nil {
		return nil, err
	}
	options, err := in.options()
	if err != nil {
		return nil, err
	}
	path, err := files.Abs(in.Path)
	if err != nil {
		return nil, err
	}
	content, err := a.Upload(rest.RequestIn(ctx))
	if err != nil {
		return nil, err
	}
	defer content.Close()
	n, err := files.Write(ctx, in.Path, content, options)
	if options.Exclusive && errors.Is(err, fs.ErrExist) {
		return nil, rest.Preconditions.Problem("conflict: there is a file already: " + rest.JSONPath(path))
	}
	if err != nil {
		return nil, err
	}
	out := new(writeOutput)
	out.Body.FilePath, out.Body.BytesWritten = pathOf(path), n
	return out, nil
}

// options are what the query and the headers ask for.
func (in *writeInput) options() (filesystem.WriteOptions, error) {
	options := filesystem.WriteOptions{Append: in.Append, NoSync: !in.Sync}
	refuse := func(detail string) (filesystem.WriteOptions, error) {
		return options, rest.InvalidRequest.Problem("invalid request: " + detail)
	}
	var err error
	if options.Mode, err = parseMode(in.Mode); err != nil {
		return options, err
	}
	switch in.IfNoneMatch = strings.TrimSpace(in.IfNoneMatch); in.IfNoneMatch {
	case "":
	case "*":
		options.Exclusive = true
	default:
		return refuse("If-None-Match must be * here; use If-Match for an entity tag")
	}
	options.IfMatch = strings.TrimSpace(in.IfMatch)
	switch {
	case strings.Contains(options.IfMatch, ","):
		return refuse("If-Match must be one entity tag, or *")
	case in.ContentRange != "":
		// RFC 9110, section 14.5: taken for a whole file, a part would
		// destroy the rest of it.
		return refuse("Content-Range is not supported; PUT the whole file, or use append=true")
	}
	return options, nil
}
