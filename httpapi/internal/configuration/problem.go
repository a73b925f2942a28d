package configuration

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/configfile"
)

// Problem returns the problem for an error of the configuration of a folder, or nil if err
// is another error.
func Problem(err error) *rest.Problem {
	var written *configfile.WrittenError
	var invalid *configfile.InvalidFileError
	var changed *folders.ChangedError
	var path *fs.PathError
	switch {
	case errors.As(err, &changed):
		return rest.ConflictOf(changed.Error())
	case errors.As(err, &written) && rest.NoSpaceLeft(err):
		return rest.NoSpace.Problem("stream error: " + written.Error())
	case errors.As(err, &written):
		return rest.StreamError.Problem("stream error: " + written.Error())
	case errors.As(err, &invalid):
		return rest.InvalidRequest.Problem("invalid request: " + invalid.Error() + "; repair or remove that file")
	case errors.Is(err, configfile.ErrTooLarge):
		return rest.PayloadTooLarge.Problem("invalid request: " + err.Error())
	case errors.Is(err, configfile.ErrLocked):
		return rest.TimedOut.Message(err.Error())
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return rest.PermissionDenied.Problem("permission denied: " + err.Error())
	case errors.As(err, &path) && rest.IsAny(err, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP):
		return rest.InvalidRequest.Problem("invalid request: " + err.Error())
	}
	return nil
}
