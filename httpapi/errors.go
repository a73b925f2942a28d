package httpapi

import (
	"cmp"
	"errors"
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

// problemOf returns the problem for an error of the domain.
func problemOf(err error, other rest.Kind) *rest.Problem {
	return rest.Group{Problem: problemTable}.ProblemOf(err, other)
}

// problemTable returns the problem for an error of the domain, or nil if err is another error.
func problemTable(err error) *rest.Problem { return cmp.Or(fullProblem(err), desktops.Problem(err)) }

// NoSpace reports whether an error of this package says that a disk is full or
// that a quota is used up.
func NoSpace(err error) bool {
	return rest.IsAny(err, syscall.ENOSPC, syscall.EDQUOT, eventlog.ErrFull, filesystem.ErrNoSpace, recording.ErrNoSpace)
}

// fullProblem returns the problem for a full disk, or nil if err is another error.
func fullProblem(err error) *rest.Problem {
	if !NoSpace(err) {
		return nil
	}
	if p, ok := errors.AsType[*rest.Problem](err); ok {
		return p
	}
	text := err.Error()
	if errors.Is(err, recording.ErrNoSpace) {
		text = "there is too little space left on the disk of the recordings; delete some"
	}
	return rest.DiskFull(text)
}

func textOf(p *string) string { return rest.Value(p) }
