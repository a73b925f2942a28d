package httpapi

import (
	"syscall"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/desktops"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

// Problem is an error in the form that clients get. A desktop.Config.Policy may return
// one to choose the response to a refused action.
type Problem = rest.Problem

// NoSpace reports whether an error of this package says that a disk is full or
// that a quota is used up.
func NoSpace(err error) bool {
	return rest.IsAny(err, syscall.ENOSPC, syscall.EDQUOT, eventlog.ErrFull, filesystem.ErrNoSpace, recording.ErrNoSpace)
}

// asProblem returns the problem for an error of package fleet, or err if it has none.
func asProblem(err error) error {
	if p := desktops.Problem(err); p != nil {
		return p
	}
	return err
}
