package files

import (
	"bufio"
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type watchFilesInput struct {
	FolderQuery
	Recursive bool `query:"recursive" doc:"Watch all directories below as well, also those that are made later"`
}

// FileEvent is what happened to a file.
type FileEvent struct {
	Type filesystem.EventType `json:"type"`
	FilePath
	Directory bool   `json:"directory,omitempty"`
	Dropped   int    `json:"dropped,omitempty"`
	Problem   string `json:"problem,omitempty"`
}

func (a *area) registerWatch(r rest.Route) {
	r.ID, r.Method, r.Path, r.Query = "watchFiles", http.MethodGet, "/v1/fs/watch", true
	r.Summary = "Follow what happens to files"
	r.About = "A stream of server-sent events named created, changed, removed and renamed (moved away), whose data is JSON: " +
		"type, path, and directory when it is one. An event named overflow says that some were missed, and where: look again. " +
		"The comment \": connected\" comes first; what happens from then on is told. " +
		"The stream ends when what is watched is removed or moved away, or, after an event named error with a problem, because watching failed."
	r.Content = map[string]*huma.MediaType{rest.EventStream: {Schema: &huma.Schema{Type: huma.TypeString}}}
	rest.Add(a.Group, r, a.watchFiles)
}

func (a *area) watchFiles(_ context.Context, in *watchFilesInput) (*rest.EventsOutput, error) {
	files, err := a.in(in.RootQuery)
	if err != nil {
		return nil, err
	}
	watch, err := files.Watch(in.Path, filesystem.WatchOptions{Recursive: in.Recursive})
	if err != nil {
		return nil, err
	}
	return &rest.EventsOutput{
		ContentType: rest.EventStream, Cache: rest.StreamCache, Buffering: "no",
		Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			r := rest.RequestOf(ctx)
			if r.Method() == fiber.MethodHead {
				_ = watch.Close()
				return
			}
			a.Follow(r, nil, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
				defer func() { _ = watch.Close() }()
				rest.WriteEvents(w, flush, watch.Events(), writeFileEvent, rest.Heartbeat, gone, ending)
				if err := watch.Err(); err != nil {
					rest.WriteProblem(w, a.ProblemOf(err, rest.Internal))
					_ = flush()
				}
			})
		},
	}, nil
}

func writeFileEvent(w *bufio.Writer, e filesystem.Event) error {
	data, err := rest.MarshalJSON(FileEvent{e.Type, pathOf(e.Path), e.Directory, e.Dropped, rest.JSONPath(e.Reason)})
	if err == nil {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, data)
	}
	return err
}
