package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/filesystem"
)

type watchFilesInput struct {
	FolderQuery
	Recursive bool `query:"recursive" doc:"Watch all directories below as well, also those that are made later"`
}

// fileEvent is what happened to a file.
type fileEvent struct {
	Type filesystem.EventType `json:"type"`
	FilePath
	Directory bool   `json:"directory,omitempty"`
	Dropped   int    `json:"dropped,omitempty"`
	Problem   string `json:"problem,omitempty"`
}

func (s *Server) registerWatch(r route) {
	r.id, r.method, r.path, r.query = "watchFiles", http.MethodGet, "/v1/fs/watch", true
	r.summary = "Follow what happens to files"
	r.about = "A stream of server-sent events named created, changed, removed and renamed (moved away), whose data is JSON: " +
		"type, path, and directory when it is one. An event named overflow says that some were missed, and where: look again. " +
		"The comment \": connected\" comes first; what happens from then on is told. " +
		"The stream ends when what is watched is removed or moved away, or, after an event named error with a problem, because watching failed."
	r.content = map[string]*huma.MediaType{eventStream: {Schema: &huma.Schema{Type: huma.TypeString}}}
	add(s, r, s.watchFiles)
}

func (s *Server) watchFiles(_ context.Context, in *watchFilesInput) (*eventsOutput, error) {
	files, err := s.in(in.RootQuery)
	if err != nil {
		return nil, err
	}
	watch, err := files.Watch(in.Path, filesystem.WatchOptions{Recursive: in.Recursive})
	if err != nil {
		return nil, err
	}
	return &eventsOutput{
		ContentType: eventStream, Cache: streamCache, Buffering: "no",
		Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			r := requestOf(ctx)
			if r.Method() == fiber.MethodHead {
				_ = watch.Close()
				return
			}
			s.follow(r, nil, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
				defer func() { _ = watch.Close() }()
				writeEvents(w, flush, watch.Events(), writeFileEvent, heartbeat, gone, ending)
				if err := watch.Err(); err != nil {
					writeProblem(w, problemOf(err, internal))
					_ = flush()
				}
			})
		},
	}, nil
}

func writeFileEvent(w *bufio.Writer, e filesystem.Event) error {
	data, err := marshalJSON(fileEvent{e.Type, pathOf(e.Path), e.Directory, e.Dropped, jsonPath(e.Reason)})
	if err == nil {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, data)
	}
	return err
}

// writeProblem tells why a stream ends.
func writeProblem(w *bufio.Writer, p *Problem) {
	if data, err := marshalJSON(p); err == nil {
		fmt.Fprintf(w, "event: error\ndata: %s\n\n", data)
	}
}
