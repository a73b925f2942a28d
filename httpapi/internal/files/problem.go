package files

import (
	"errors"
	"io/fs"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// Problem returns the problem for an error of package filesystem, or nil if err is another
// error.
func Problem(err error) *rest.Problem {
	var e *filesystem.Error
	var p *rest.Problem
	switch {
	case !errors.As(err, &e):
		return nil
	case errors.As(err, &p): // of the upload that could not be read
		return p
	}
	text := rest.JSONPath(e.Error())
	switch {
	case rest.IsAny(err, filesystem.ErrClosed):
		return rest.Closing()
	case rest.IsAny(err, filesystem.ErrOutside, filesystem.ErrRoot, fs.ErrPermission):
		return rest.PermissionDenied.Problem("permission denied: " + text)
	case rest.IsAny(err, filesystem.ErrChanged):
		return rest.Preconditions.Problem("conflict: " + text)
	case e.Op == "extract" && rest.IsAny(err, filesystem.ErrTooLarge):
		return rest.PayloadTooLarge.Problem("invalid request: " + text)
	case rest.IsAny(err, filesystem.ErrNoSpace):
		return rest.NoSpace.Problem("stream error: "+text).With("details", map[string]any{"message": text})
	case e.Op == "mkdir" && rest.IsAny(err, filesystem.ErrNotDirectory),
		rest.IsAny(err, fs.ErrExist, filesystem.ErrNotEmpty, filesystem.ErrBusy):
		return rest.ConflictOf(text)
	case rest.IsAny(err, filesystem.ErrInvalidPath, filesystem.ErrUnknownRoot, filesystem.ErrNotFile, filesystem.ErrNotDirectory,
		filesystem.ErrIntoItself, filesystem.ErrEndless, filesystem.ErrArchive, filesystem.ErrPattern, filesystem.ErrTooLarge):
		return rest.InvalidRequest.Problem("invalid request: " + text)
	case rest.IsAny(err, fs.ErrNotExist):
		return rest.Missing("file", rest.JSONPath(e.Path))
	}
	k := rest.Internal
	k.Title = "Stream Error"
	return k.Problem("stream error: "+text).With("details", map[string]any{"message": text})
}
