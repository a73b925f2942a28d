package desktops

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/recording/timeline"
	"github.com/deskhand/deskhand/webrtc"
)

// installCommand installs the programs that desktops need.
const installCommand = "deskhand install desktop --yes"

// The kinds of problem of desktops.
var (
	runtimeInactive     = rest.Kind{Code: "desktop_runtime_inactive", Title: "Desktop Runtime Inactive", Status: http.StatusConflict}
	runtimeStarting     = rest.Kind{Code: "desktop_runtime_starting", Title: "Desktop Runtime Starting", Status: http.StatusConflict}
	runtimeFailed       = rest.Kind{Code: "desktop_runtime_failed", Title: "Desktop Runtime Failed", Status: http.StatusServiceUnavailable}
	dependenciesMissing = rest.Kind{Code: "desktop_dependencies_missing", Title: "Desktop Dependencies Missing", Status: http.StatusServiceUnavailable}
	unsupportedAction   = rest.Kind{Code: "desktop_unsupported_platform", Title: "Desktop Unsupported", Status: http.StatusNotImplemented}
	invalidAction       = rest.Kind{Code: "desktop_invalid_action", Title: "Desktop Invalid Action", Status: http.StatusBadRequest}
	screenshotFailed    = rest.Kind{Code: "desktop_screenshot_failed", Title: "Desktop Screenshot Failed", Status: http.StatusBadGateway}
	inputFailed         = rest.Kind{Code: "desktop_input_failed", Title: "Desktop Input Failed", Status: http.StatusBadGateway}
	inputEnded          = rest.Kind{Code: "desktop_input_failed", Title: "Desktop Input Failed", Status: http.StatusConflict}
	windowNotFound      = rest.Kind{Code: "window_not_found", Title: "Window Not Found", Status: http.StatusNotFound}
	noFocusedWindow     = rest.Kind{Code: "no_focused_window", Title: "No Focused Window", Status: http.StatusNotFound}
	appNotFound         = rest.Kind{Code: "app_not_found", Title: "App Not Found", Status: http.StatusNotFound}
	secretNotFound      = rest.Kind{Code: "secret_not_found", Title: "Secret Not Found", Status: http.StatusNotFound}
	staleElement        = rest.Kind{Code: "stale_element", Title: "Stale Element", Status: http.StatusConflict}
	elementRefused      = rest.Kind{Code: "element_refused", Title: "Element Refused", Status: http.StatusConflict}
	fileDialogFailed    = rest.Kind{Code: "file_dialog_failed", Title: "File Dialog Failed", Status: http.StatusConflict}
	controlHeld         = rest.Kind{Code: "control_held", Title: "Control Held", Status: http.StatusConflict}
	staleObservation    = rest.Kind{Code: "stale_observation", Title: "Stale Observation", Status: http.StatusConflict}
	noMemory            = rest.Kind{Code: "no_memory", Title: "No Memory", Status: http.StatusServiceUnavailable}
	tooManyViewers      = rest.Kind{Code: "too_many_viewers", Title: "Too Many Viewers", Status: http.StatusServiceUnavailable}
	tooManyOfOwner      = rest.Kind{Code: "too_many_viewers", Title: "Too Many Viewers", Status: http.StatusTooManyRequests}
)

// Problem returns the problem for an error of a desktop, its live view or its recordings,
// or nil if err is another error.
func Problem(err error) *rest.Problem {
	switch {
	case errors.Is(err, recording.ErrNoSpace):
		return rest.DiskFull("there is too little space left on the disk of the recordings; delete some")
	case rest.NoSpaceLeft(err):
		return nil // rest has the answer to a full disk
	}
	return cmp.Or(streamProblem(err), inputProblem(err), elementProblem(err), recordingProblem(err), fleetProblem(err), desktopProblem(err))
}

func desktopProblem(err error) *rest.Problem {
	var bad *desktop.InvalidError
	var missing *desktop.MissingError
	var late *desktop.DeadlineError
	var action *batch.ActionError
	var dialog *batch.FileDialogError
	switch {
	case errors.As(err, &dialog):
		return fileDialogFailed.WithCode(rest.Sentence(err))
	case errors.As(err, &action):
		return atAction(action.Index, Problem(action.Err))
	case errors.As(err, &bad):
		field := desktopField(bad.Field)
		return invalidArgument(field, field+" "+bad.Reason)
	case errors.As(err, &missing):
		return dependenciesMissing.WithCode(fmt.Sprintf(
			"Desktop dependencies are not installed: %s. Run `%s` to install them, or install the required tools manually.",
			strings.Join(missing.Programs, ", "), installCommand)).
			With("missingDependencies", missing.Programs).With("installCommand", installCommand)
	case errors.As(err, &late):
		details := withProgress(late.Done, map[string]any{"message": late.Error(), "operation": late.Op, "deadlineMs": late.After.Milliseconds()})
		if late.Holder != nil {
			details["holder"] = actorOf(*late.Holder)
		}
		return rest.TimedOut.Problem("timeout: "+late.Error()).With("details", details)
	case errors.Is(err, desktop.ErrStale):
		return staleObservation.WithCode(rest.Sentence(err))
	case errors.Is(err, desktop.ErrClosed):
		return notStarted()
	case errors.Is(err, desktop.ErrRestarting):
		return runtimeFailed.WithCode(rest.Sentence(err)+"; try again shortly").WithHeader(fiber.HeaderRetryAfter, "1")
	case errors.Is(err, desktop.ErrWindowNotFound):
		return windowNotFound.WithCode(rest.Sentence(err) + "; GET the windows for those that exist")
	case errors.Is(err, desktop.ErrNoFocusedWindow):
		return noFocusedWindow.WithCode("No window currently has focus")
	case errors.Is(err, desktop.ErrAppNotFound):
		return appNotFound.WithCode(rest.Sentence(err))
	case errors.Is(err, desktop.ErrSecretNotFound):
		return secretNotFound.WithCode("There is no secret of that name; PUT it to /v1/secrets/{name} first, with the server's token")
	case errors.Is(err, desktop.ErrNoClipboardContent):
		return rest.NotAcceptable.Problem("not acceptable: the selection holds no image").
			With("details", map[string]any{"message": "the selection holds no image; leave format out to read its text"})
	case errors.Is(err, desktop.ErrUnsupported):
		return unsupportedAction.WithCode(rest.Sentence(err))
	}
	return nil
}

// desktopFields maps the fields of desktop.InvalidError to the fields of requests, where more
// than the case of the first letter differs.
var desktopFields = map[string]string{
	"Count": "clickCount", "Data": "text", "Delay": "delayMs", "Dir": "cwd", "DPI": "dpi", "DX": "deltaX", "DY": "deltaY", "Keys": "key", "SecretName": "secret",
}

func desktopField(field string) string {
	return cmp.Or(desktopFields[field], strings.ToLower(field[:1])+field[1:])
}

// invalidArgument returns the problem for an argument that is refused. field is its JSON or
// query name, and sentence says what is accepted.
func invalidArgument(field, sentence string) *rest.Problem {
	return invalidAction.WithCode(sentence).With("field", field)
}

// notStarted returns the problem for a desktop that does not run.
func notStarted() *rest.Problem {
	return runtimeInactive.WithCode("Desktop runtime has not been started; POST to its start first")
}

// withProgress adds the progress of an action to details, if it is known.
func withProgress(progress string, details map[string]any) map[string]any {
	if progress != "" {
		details["progress"] = progress
	}
	return details
}

// inputProblem returns the problem for input that was refused because another actor has
// control, or that ended before it was complete, or nil if err is another error.
func inputProblem(err error) (p *rest.Problem) {
	if held, ok := errors.AsType[*desktop.ControlHeldError](err); ok {
		p = controlHeld.WithCode(rest.Sentence(err)+"; wait until it is released, or take control").With("holder", actorOf(held.Holder)).With("since", held.Since.UTC())
	}
	var cut *desktop.InterruptedError
	if !errors.As(err, &cut) {
		return p
	}
	if p == nil {
		p = inputEnded.WithCode("")
	}
	p.Detail = rest.Sentence(err)
	return p.With("details", withProgress(cut.Done, map[string]any{"message": err.Error(), "operation": cut.Op}))
}

// fleetFields maps the fields of fleet.InvalidError to the fields of requests.
var fleetFields = map[string]string{"ID": "id", "Desktop.StateDir": "stateDir"}

// fleetProblem returns the problem for an error of package fleet, or nil if err is
// another error.
func fleetProblem(err error) *rest.Problem {
	var state *fleet.StateError
	var limit *fleet.LimitError
	var bad *fleet.InvalidError
	var about *fleet.Error
	switch {
	case errors.As(err, &state):
		return stateProblem(state)
	case errors.As(err, &limit):
		return rest.Conflict.Problem(fmt.Sprintf("conflict: there are %[1]d desktops and this server allows %[1]d; DELETE one first, or start the server with a larger --max-desktops", limit.Limit)).
			With("details", map[string]any{"message": "too many desktops", "limit": limit.Limit})
	case errors.As(err, &bad):
		field := cmp.Or(fleetFields[bad.Field], bad.Field)
		return invalidArgument(field, field+" "+bad.Reason)
	case errors.Is(err, fleet.ErrClosed):
		return rest.Closing()
	case !errors.As(err, &about):
		return nil
	case errors.Is(err, fleet.ErrNoMemory):
		return noMemory.Problem(fleet.ErrNoMemory.Error()).WithHeader(fiber.HeaderRetryAfter, "30")
	case errors.Is(err, fleet.ErrNotFound):
		return rest.Missing("desktop", about.ID)
	case errors.Is(err, fleet.ErrExists):
		return rest.Conflict.Problem(fmt.Sprintf("conflict: a desktop %s exists already; choose another id, or start that one", about.ID)).
			With("details", map[string]any{"message": "id is taken", "id": about.ID})
	case errors.Is(err, fleet.ErrRemoving):
		return rest.Conflict.Problem(fmt.Sprintf("conflict: what an earlier server left of a desktop %s is being removed; try again", about.ID)).
			With("details", map[string]any{"message": "id is being cleaned up", "id": about.ID})
	case errors.Is(err, fleet.ErrStopped):
		return runtimeInactive.WithCode("Desktop was stopped while it was starting; start it again if it is wanted")
	case errors.Is(err, fleet.ErrNoLiveView):
		return unsupportedAction.WithCode("This kind of desktop has no live view")
	case errors.Is(err, fleet.ErrNoRecording):
		return unsupportedAction.WithCode("This kind of desktop cannot be recorded")
	case errors.Is(err, fleet.ErrRecording):
		return rest.ConflictOf("a desktop recording is already active")
	}
	return nil
}

// stateProblem returns the problem for a desktop that is not running.
func stateProblem(e *fleet.StateError) *rest.Problem {
	switch {
	case e.State == desktop.StateStarting:
		return runtimeStarting.WithCode("Desktop runtime is starting; try again shortly").WithHeader(fiber.HeaderRetryAfter, "1")
	case e.State == desktop.StateStopping:
		return runtimeStarting.WithCode("Desktop runtime is stopping; start it again once its status is inactive").WithHeader(fiber.HeaderRetryAfter, "1")
	case e.Cause != nil:
		return runtimeInactive.WithCode("Desktop runtime has not been started: the last attempt failed (" + e.Cause.Error() + ")")
	}
	return notStarted()
}

// recordingFields maps the fields of recording.InvalidError to the fields of requests, where
// they differ.
var recordingFields = map[string]string{
	"frameRate": "fps", "maxDuration": "maxDurationMs", "segmentLength": "segmentMs", "thumbnailInterval": "thumbnailMs",
}

// recordingProblem returns the problem for an error of package recording, or nil if err
// is another error.
func recordingProblem(err error) *rest.Problem {
	var bad *recording.InvalidError
	var missing *recording.MissingError
	switch {
	case errors.As(err, &bad):
		field := cmp.Or(recordingFields[bad.Field], bad.Field)
		return invalidArgument(field, field+" "+bad.Reason)
	case errors.As(err, &missing):
		return rest.ConflictOf("ffmpeg is required for desktop recording").
			With("missingDependencies", missing.Programs).With("installCommand", installCommand)
	case errors.Is(err, recording.ErrTooManyClips):
		return rest.Unavailable.Problem(err.Error()).WithHeader(fiber.HeaderRetryAfter, "1")
	case errors.Is(err, recording.ErrActive):
		return rest.ConflictOf("stop the active desktop recording before deleting it")
	case errors.Is(err, recording.ErrNotActive):
		return rest.ConflictOf("the recording has ended")
	case rest.IsAny(err, recording.ErrTooMany, recording.ErrFull, recording.ErrLocked, timeline.ErrFull):
		return rest.ConflictOf(err.Error())
	case errors.Is(err, recording.ErrClosed):
		return rest.Unavailable.Problem("the desktop or the server is going away")
	}
	return nil
}

// streamProblem returns the problem for an error of package webrtc, or nil if err is
// another error.
func streamProblem(err error) *rest.Problem {
	switch {
	case errors.Is(err, webrtc.ErrClosed):
		return rest.ConflictOf("desktop streaming is not active")
	case errors.Is(err, webrtc.ErrTooManyOfOwner):
		return tooManyOfOwner.Problem(err.Error()).WithHeader(fiber.HeaderRetryAfter, "10")
	case errors.Is(err, webrtc.ErrTooManyViewers):
		return tooManyViewers.Problem(err.Error()).WithHeader(fiber.HeaderRetryAfter, "10")
	case errors.Is(err, webrtc.ErrNoCodec):
		return rest.NotAcceptable.Problem("not acceptable: " + err.Error())
	case errors.Is(err, webrtc.ErrOffer):
		return rest.InvalidRequest.Problem("invalid request: " + err.Error())
	case errors.Is(err, webrtc.ErrNoPort):
		return rest.ConflictOf(err.Error())
	case errors.Is(err, webrtc.ErrCodec):
		return rest.ConflictOf("failed to start the stream: " + err.Error())
	}
	return nil
}
