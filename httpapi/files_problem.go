package httpapi

import (
	"errors"
	"io/fs"

	"github.com/deskhand/deskhand/filesystem"
)

// fileProblem is the answer to an error of package filesystem, or nil.
func fileProblem(err error) *Problem {
	var e *filesystem.Error
	var p *Problem
	switch {
	case !errors.As(err, &e):
		return nil
	case errors.As(err, &p): // of the upload that could not be read
		return p
	}
	text := jsonPath(e.Error())
	switch {
	case isAny(err, filesystem.ErrClosed):
		return shuttingDown.problem("the server is shutting down")
	case isAny(err, filesystem.ErrOutside, filesystem.ErrRoot, fs.ErrPermission):
		return permissionDenied.problem("permission denied: " + text)
	case isAny(err, filesystem.ErrChanged):
		return preconditions.problem("conflict: " + text)
	case e.Op == "extract" && isAny(err, filesystem.ErrTooLarge):
		return payloadTooLarge.problem("invalid request: " + text)
	case isAny(err, filesystem.ErrNoSpace):
		return noSpace.problem("stream error: "+text).with("details", map[string]any{"message": text})
	case e.Op == "mkdir" && isAny(err, filesystem.ErrNotDirectory),
		isAny(err, fs.ErrExist, filesystem.ErrNotEmpty, filesystem.ErrBusy):
		return conflictOf(text)
	case isAny(err, filesystem.ErrInvalidPath, filesystem.ErrUnknownRoot, filesystem.ErrNotFile, filesystem.ErrNotDirectory,
		filesystem.ErrIntoItself, filesystem.ErrEndless, filesystem.ErrArchive, filesystem.ErrPattern, filesystem.ErrTooLarge):
		return invalidRequest.problem("invalid request: " + text)
	case isAny(err, fs.ErrNotExist):
		return missing("file", jsonPath(e.Path))
	}
	k := internal
	k.title = "Stream Error"
	return k.problem("stream error: "+text).with("details", map[string]any{"message": text})
}

func isAny(err error, kinds ...error) bool {
	for _, k := range kinds {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}
