package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
)

// installCommand is what brings the programs that desktops need.
const installCommand = "deskhand install desktop --yes"

// Problem is an error in the form that clients get. A desktop.Config.Policy may return
// one to choose the response to a refused action.
type Problem = rest.Problem

// problemOf returns the problem for an error of the domain.
func problemOf(err error, other rest.Kind) *rest.Problem {
	return rest.Group{Problem: problemTable}.ProblemOf(err, other)
}

// problemTable returns the problem for an error of the domain, or nil if err is another error.
func problemTable(err error) *rest.Problem {
	var bad *desktop.InvalidError
	var missing *desktop.MissingError
	var late *desktop.DeadlineError
	if p := cmp.Or(fullProblem(err), streamProblem(err), interruptedProblem(err),
		controlProblem(err), recordingProblem(err), fleetProblem(err)); p != nil {
		return p
	}
	switch {
	case errors.As(err, &bad):
		return rest.InvalidArgument(bad.Field, bad.Field+" "+bad.Reason)
	case errors.As(err, &missing):
		return missingPrograms(missing.Programs)
	case errors.As(err, &late):
		return tooLate(late)
	case errors.Is(err, desktop.ErrClosed):
		return notStarted()
	case errors.Is(err, desktop.ErrRestarting):
		return rest.RuntimeFailed.WithCode(rest.Sentence(err)+"; try again shortly").WithHeader(fiber.HeaderRetryAfter, "1")
	case errors.Is(err, desktop.ErrWindowNotFound):
		return rest.WindowNotFound.WithCode(rest.Sentence(err) + "; GET the windows for those that exist")
	case errors.Is(err, desktop.ErrNoFocusedWindow):
		return rest.NoFocusedWindow.WithCode("No window currently has focus")
	case errors.Is(err, desktop.ErrAppNotFound):
		return rest.AppNotFound.WithCode(rest.Sentence(err))
	case errors.Is(err, desktop.ErrNoClipboardContent):
		return rest.NotAcceptable.Problem("not acceptable: the selection holds no image").
			With("details", map[string]any{"message": "the selection holds no image; leave format out to read its text"})
	case errors.Is(err, desktop.ErrUnsupported):
		return rest.UnsupportedAction.WithCode(rest.Sentence(err))
	}
	return nil
}

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

func notStarted() *rest.Problem {
	return rest.RuntimeInactive.WithCode("Desktop runtime has not been started; POST to its start first")
}

func missingPrograms(programs []string) *rest.Problem {
	return rest.Dependencies.WithCode(fmt.Sprintf(
		"Desktop dependencies are not installed: %s. Run `%s` to install them, or install the required tools manually.",
		strings.Join(programs, ", "), installCommand)).
		With("missingDependencies", programs).With("installCommand", installCommand)
}

func tooLate(e *desktop.DeadlineError) *rest.Problem {
	details := map[string]any{"message": e.Error(), "operation": e.Op, "deadlineMs": e.After.Milliseconds()}
	if e.Done != "" {
		details["progress"] = e.Done
	}
	return rest.TimedOut.Problem("timeout: "+e.Error()).With("details", details)
}

// interruptedProblem returns the problem for input that ended before it was complete,
// or nil if err is another error.
func interruptedProblem(err error) *rest.Problem {
	var cut *desktop.InterruptedError
	if !errors.As(err, &cut) {
		return nil
	}
	p := controlProblem(cut.Cause)
	if p == nil {
		p = rest.InputEnded.WithCode("")
	}
	p.Detail = rest.Sentence(err)
	details := map[string]any{"message": err.Error(), "operation": cut.Op}
	if cut.Done != "" {
		details["progress"] = cut.Done
	}
	return p.With("details", details)
}
