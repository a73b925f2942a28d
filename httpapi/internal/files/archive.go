package files

import (
	"context"
	"io"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// archiveTypes are the types under which archives come. Which compression one
// really has, its first bytes show.
var archiveTypes = []string{
	"application/x-tar", "application/tar", "application/x-gtar", "application/x-ustar",
	"application/gzip", "application/x-gzip", "application/x-tgz", "application/x-gtar-compressed", "application/x-compressed-tar",
	"application/zstd", "application/x-zstd", "application/x-zstd-compressed-tar",
}

type extractInput struct {
	FolderQuery
	Sync        bool   `query:"sync" default:"true" doc:"Respond after all files are synced to disk; with false, a power failure may lose them"`
	ContentType string `header:"Content-Type" doc:"Media type of the archive, compressed or uncompressed"`
}

type extractOutput struct {
	Body struct {
		Paths     []string `json:"paths" nullable:"false" doc:"Absolute paths of the first 1024 entries"`
		Truncated bool     `json:"truncated" doc:"Whether there are more"`
	}
}

type archiveInput struct {
	FolderQuery
	Format string `query:"format" enum:"tar,tar.gz,tar.zst" default:"tar"`
}

type archiveOutput struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Cache       string `header:"Cache-Control"`
	Body        func(huma.Context)

	discard func() // ends the archive; nil: there is none
}

// Discard ends the archive if the answer is not sent.
func (out *archiveOutput) Discard() {
	if out.discard != nil {
		out.discard()
	}
}

// archiveFormats are the formats of downloads.
var archiveFormats = map[string]struct {
	compression filesystem.Compression
	contentType string
}{
	"tar":     {filesystem.CompressionNone, "application/x-tar"},
	"tar.gz":  {filesystem.CompressionGzip, "application/gzip"},
	"tar.zst": {filesystem.CompressionZstd, "application/zstd"},
}

func (a *area) registerArchives(r rest.Route) {
	up := r.Post("uploadBatch", "/v1/fs/upload-batch", "Unpack a tar archive into a directory").
		WithErrors(http.StatusConflict, http.StatusInternalServerError, http.StatusInsufficientStorage)
	up.About = "The archive may be compressed with gzip or zstd. Unpacking is all or nothing: an archive that is damaged, " +
		"or contains a refused path, link or device, changes nothing."
	up.Body = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	for _, t := range archiveTypes {
		up.Body.Content[t] = rest.Binary()
	}
	rest.Add(a.Group, up, a.uploadBatch)
	down := r.Get("downloadArchive", "/v1/fs/archive", "Download a directory or a file as a tar archive")
	down.Query = true
	down.About = "The archive is created while it is sent. Symbolic links are stored as links; unreadable files are omitted. " +
		"After an error in the middle, the server closes the connection."
	down.Content = map[string]*huma.MediaType{}
	for f := range maps.Values(archiveFormats) {
		down.Content[f.contentType] = rest.Binary()
	}
	rest.Add(a.Group, down, a.downloadArchive)
}

func (a *area) uploadBatch(ctx context.Context, in *extractInput) (*extractOutput, error) {
	files, err := a.in(ctx, in.RootQuery)
	if err != nil {
		return nil, err
	}
	if media, _, err := mime.ParseMediaType(in.ContentType); err != nil || !slices.Contains(archiveTypes, media) {
		return nil, rest.InvalidRequest.Problem("invalid request: content-type must be application/x-tar, application/gzip or application/zstd")
	}
	request := rest.RequestIn(ctx)
	leave, err := rest.EnterArchive(a.API, request) // unpacking zstd takes up to 32 MiB
	if err != nil {
		return nil, err
	}
	defer leave()
	content, err := a.Upload(request)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	done, err := files.Extract(ctx, in.Path, content, filesystem.ExtractOptions{NoSync: !in.Sync})
	if err != nil {
		return nil, err
	}
	out := new(extractOutput)
	out.Body.Paths, out.Body.Truncated = []string{}, done.Truncated
	for _, p := range done.Paths {
		out.Body.Paths = append(out.Body.Paths, rest.JSONPath(p))
	}
	return out, nil
}

func (a *area) downloadArchive(ctx context.Context, in *archiveInput) (*archiveOutput, error) {
	files, err := a.in(ctx, in.RootQuery)
	if err != nil {
		return nil, err
	}
	top, err := files.Abs(in.Path)
	if err != nil {
		return nil, err
	}
	format := archiveFormats[in.Format]
	name := strings.TrimPrefix(path.Base(top), "/")
	if name == "" {
		name = "root"
	}
	out := &archiveOutput{
		ContentType: format.contentType, Disposition: rest.Attachment(name + "." + in.Format), Cache: "private, no-store",
	}
	request := rest.RequestIn(ctx)
	if request.Method() == http.MethodHead {
		_, err := files.Stat(top)
		out.Body = func(ctx huma.Context) { ctx.SetStatus(http.StatusOK) }
		return out, err
	}
	// What goes wrong before there is anything to send is answered as always.
	ctx = context.WithoutCancel(ctx)
	out.Body, out.discard, err = a.Pack(request, func(w io.Writer) error {
		_, err := files.Archive(ctx, top, w, filesystem.ArchiveOptions{Compression: format.compression})
		return err
	})
	return out, err
}
