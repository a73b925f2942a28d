package files

import (
	"context"
	"errors"
	"io"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type watchFilesInput struct {
	FolderQuery
	Recursive bool `query:"recursive" doc:"Watch subdirectories too, including new ones"`
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
	r = r.Get("watchFiles", "/v1/fs/watch", "Stream the changes of files")
	r.Query = true
	r.About = "A stream of server-sent events named created, changed, removed and renamed (moved away), whose data is JSON: " +
		"type, path, and directory: true for a directory. An event named overflow says that events were dropped, and in which path: list it again. " +
		"The stream starts with the comment \": connected\", and includes all changes after it. " +
		"It ends when the watched path is removed or moved away, or with an event named error, which has a problem, when watching fails."
	r.Content = rest.EventContent()
	rest.Add(a.Group, r, a.watchFiles)
}

func (a *area) watchFiles(ctx context.Context, in *watchFilesInput) (*rest.EventsOutput, error) {
	files, err := a.in(ctx, in.RootQuery)
	if err != nil {
		return nil, err
	}
	leave, err := a.enterWatch(rest.RequestIn(ctx))
	if err != nil {
		return nil, err
	}
	watch, err := files.Watch(in.Path, filesystem.WatchOptions{Recursive: in.Recursive})
	if err != nil {
		leave()
		return nil, err
	}
	return rest.AnswerFeed(a.API, rest.Feed[fileEvent]{
		Next: func(ctx context.Context) (fileEvent, error) {
			e, err := rest.Receive(ctx, watch.Events())
			if failed := watch.Err(); errors.Is(err, io.EOF) && failed != nil {
				return fileEvent{failed: failed}, nil //nolint:nilerr // Write sends it
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
		Close: func() { _ = watch.Close(); leave() },
	}), nil
}

// fileEvent is an event, or the error that ends the watch.
type fileEvent struct {
	filesystem.Event
	failed error
}

// maxWatches is how many watches may be open with tokens of a scope other than admin. Each takes
// one of the inotify instances of the server's user, which are 128 by default.
const maxWatches = 32

// enterWatch counts a watch until leave is called.
func (a *area) enterWatch(r *rest.Request) (leave func(), err error) {
	if !r.Limited() {
		return func() {}, nil
	}
	select {
	case a.watches <- struct{}{}:
		return func() { <-a.watches }, nil
	default:
		return nil, rest.Unavailable.Problem("too many watches of files are open; end one, or try again later").WithHeader(fiber.HeaderRetryAfter, "5")
	}
}
