package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/recording/timeline"
	"github.com/deskhand/deskhand/webrtc"
)

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
		return rest.InvalidArgument(field, field+" "+bad.Reason)
	case errors.Is(err, fleet.ErrClosed):
		return rest.ShuttingDown.Problem("the server is shutting down")
	case !errors.As(err, &about):
		return nil
	case errors.Is(err, fleet.ErrNotFound):
		return unknownDesktop(about.ID)
	case errors.Is(err, fleet.ErrExists):
		return rest.Conflict.Problem(fmt.Sprintf("conflict: a desktop %s exists already; choose another id, or start that one", about.ID)).
			With("details", map[string]any{"message": "id is taken", "id": about.ID})
	case errors.Is(err, fleet.ErrRemoving):
		return rest.Conflict.Problem(fmt.Sprintf("conflict: what an earlier server left of a desktop %s is being removed; try again", about.ID)).
			With("details", map[string]any{"message": "id is being cleaned up", "id": about.ID})
	case errors.Is(err, fleet.ErrStopped):
		return rest.RuntimeInactive.WithCode("Desktop was stopped while it was starting; start it again if it is wanted")
	case errors.Is(err, fleet.ErrNoLiveView):
		return rest.UnsupportedAction.WithCode("This kind of desktop has no live view")
	case errors.Is(err, fleet.ErrNoRecording):
		return rest.UnsupportedAction.WithCode("This kind of desktop cannot be recorded")
	case errors.Is(err, fleet.ErrRecording):
		return rest.ConflictOf("a desktop recording is already active")
	}
	return nil
}

// stateProblem returns the problem for a desktop that is not running.
func stateProblem(e *fleet.StateError) *rest.Problem {
	switch {
	case e.State == desktop.StateStarting:
		return rest.RuntimeStarting.WithCode("Desktop runtime is starting; try again shortly").WithHeader(fiber.HeaderRetryAfter, "1")
	case e.State == desktop.StateStopping:
		return rest.RuntimeStarting.WithCode("Desktop runtime is stopping; start it again once its status is inactive").WithHeader(fiber.HeaderRetryAfter, "1")
	case e.Cause != nil:
		return rest.RuntimeInactive.WithCode("Desktop runtime has not been started: the last attempt failed (" + e.Cause.Error() + ")")
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
		return rest.InvalidArgument(field, field+" "+bad.Reason)
	case errors.As(err, &missing):
		return rest.ConflictOf("ffmpeg is required for desktop recording").
			With("missingDependencies", missing.Programs).With("installCommand", installCommand)
	case errors.Is(err, recording.ErrTooManyClips):
		return rest.NoRoom.Problem(err.Error()).WithHeader(fiber.HeaderRetryAfter, "1")
	case errors.Is(err, recording.ErrTooMany):
		return rest.ConflictOf(err.Error())
	case errors.Is(err, recording.ErrActive):
		return rest.ConflictOf("stop the active desktop recording before deleting it")
	case errors.Is(err, recording.ErrNotActive):
		return rest.ConflictOf("the recording has ended")
	case errors.Is(err, recording.ErrLocked):
		return rest.ConflictOf(err.Error())
	case errors.Is(err, timeline.ErrFull):
		return rest.ConflictOf(err.Error())
	case errors.Is(err, recording.ErrClosed):
		return rest.ShuttingDown.Problem("the desktop or the server is going away")
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
		return rest.Kind{Code: "too_many_viewers", Title: "Too Many Viewers", Status: http.StatusTooManyRequests}.Problem(err.Error())
	case errors.Is(err, webrtc.ErrTooManyViewers):
		return rest.Kind{Code: "too_many_viewers", Title: "Too Many Viewers", Status: http.StatusServiceUnavailable}.Problem(err.Error()).WithHeader(fiber.HeaderRetryAfter, "10")
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
