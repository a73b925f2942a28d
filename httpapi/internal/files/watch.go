package files

import (
	"context"
	"errors"
	"io"

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
	r = r.Get("watchFiles", "/v1/fs/watch", "Follow what happens to files")
	r.Query = true
	r.About = "A stream of server-sent events named created, changed, removed and renamed (moved away), whose data is JSON: " +
		"type, path, and directory when it is one. An event named overflow says that some were missed, and where: look again. " +
		"The comment \": connected\" comes first; what happens from then on is told. " +
		"The stream ends when what is watched is removed or moved away, or, after an event named error with a problem, because watching failed."
	r.Content = rest.EventContent()
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
	return rest.AnswerFeed(a.API, rest.Feed[fileEvent]{
		Next: func(ctx context.Context) (fileEvent, error) {
			e, err := rest.Receive(ctx, watch.Events())
			if failed := watch.Err(); errors.Is(err, io.EOF) && failed != nil {
				return fileEvent{failed: failed}, nil
			}
			return fileEvent{Event: e}, err
		},
		Write: func(_ context.Context, w *rest.EventWriter, e fileEvent) (more bool) {
			if e.failed != nil {
				w.WriteJSON("error", 0, a.ProblemOf(e.failed, rest.Internal))
				return false
			}
			return w.WriteJSON(string(e.Type), 0, FileEvent{e.Type, pathOf(e.Path), e.Directory, e.Dropped, rest.JSONPath(e.Reason)})
		},
		Close: func() { _ = watch.Close() },
	}), nil
}

// fileEvent is an event, or the error that ends the watch.
type fileEvent struct {
	filesystem.Event
	failed error
}
