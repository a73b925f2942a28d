package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/recording/timeline"
	"github.com/deskhand/deskhand/webrtc"
)

// fleetFields maps the fields of fleet.InvalidError to the fields of requests.
var fleetFields = map[string]string{"ID": "id", "Desktop.StateDir": "stateDir"}

// fleetProblem returns the problem for an error of package fleet, or nil if err is
// another error.
func fleetProblem(err error) *Problem {
	var state *fleet.StateError
	var limit *fleet.LimitError
	var bad *fleet.InvalidError
	var about *fleet.Error
	switch {
	case errors.As(err, &state):
		return stateProblem(state)
	case errors.As(err, &limit):
		return conflict.problem(fmt.Sprintf("conflict: there are %[1]d desktops and this server allows %[1]d; DELETE one first, or start the server with a larger --max-desktops", limit.Limit)).
			with("details", map[string]any{"message": "too many desktops", "limit": limit.Limit})
	case errors.As(err, &bad):
		field := cmp.Or(fleetFields[bad.Field], bad.Field)
		return invalid(field, field+" "+bad.Reason)
	case errors.Is(err, fleet.ErrClosed):
		return shuttingDown.problem("the server is shutting down")
	case !errors.As(err, &about):
		return nil
	case errors.Is(err, fleet.ErrNotFound):
		return unknownDesktop(about.ID)
	case errors.Is(err, fleet.ErrExists):
		return conflict.problem(fmt.Sprintf("conflict: a desktop %s exists already; choose another id, or start that one", about.ID)).
			with("details", map[string]any{"message": "id is taken", "id": about.ID})
	case errors.Is(err, fleet.ErrRemoving):
		return conflict.problem(fmt.Sprintf("conflict: what an earlier server left of a desktop %s is being removed; try again", about.ID)).
			with("details", map[string]any{"message": "id is being cleaned up", "id": about.ID})
	case errors.Is(err, fleet.ErrStopped):
		return runtimeInactive.desktop("Desktop was stopped while it was starting; start it again if it is wanted")
	case errors.Is(err, fleet.ErrNoLiveView):
		return unsupportedAction.desktop("This kind of desktop has no live view")
	case errors.Is(err, fleet.ErrNoRecording):
		return unsupportedAction.desktop("This kind of desktop cannot be recorded")
	case errors.Is(err, fleet.ErrRecording):
		return conflictOf("a desktop recording is already active")
	}
	return nil
}

// stateProblem returns the problem for a desktop that is not running.
func stateProblem(e *fleet.StateError) *Problem {
	switch {
	case e.State == desktop.StateStarting:
		return runtimeStarting.desktop("Desktop runtime is starting; try again shortly").header(fiber.HeaderRetryAfter, "1")
	case e.State == desktop.StateStopping:
		return runtimeStarting.desktop("Desktop runtime is stopping; start it again once its status is inactive").header(fiber.HeaderRetryAfter, "1")
	case e.Cause != nil:
		return runtimeInactive.desktop("Desktop runtime has not been started: the last attempt failed (" + e.Cause.Error() + ")")
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
func recordingProblem(err error) *Problem {
	var bad *recording.InvalidError
	var missing *recording.MissingError
	switch {
	case errors.As(err, &bad):
		field := cmp.Or(recordingFields[bad.Field], bad.Field)
		return invalid(field, field+" "+bad.Reason)
	case errors.As(err, &missing):
		return conflictOf("ffmpeg is required for desktop recording").
			with("missingDependencies", missing.Programs).with("installCommand", installCommand)
	case errors.Is(err, recording.ErrTooManyClips):
		return noRoom.problem(err.Error()).header(fiber.HeaderRetryAfter, "1")
	case errors.Is(err, recording.ErrTooMany):
		return conflictOf(err.Error())
	case errors.Is(err, recording.ErrActive):
		return conflictOf("stop the active desktop recording before deleting it")
	case errors.Is(err, recording.ErrNotActive):
		return conflictOf("the recording has ended")
	case errors.Is(err, recording.ErrLocked):
		return conflictOf(err.Error())
	case errors.Is(err, timeline.ErrFull):
		return conflictOf(err.Error())
	case errors.Is(err, recording.ErrClosed):
		return shuttingDown.problem("the desktop or the server is going away")
	}
	return nil
}

// streamProblem returns the problem for an error of package webrtc, or nil if err is
// another error.
func streamProblem(err error) *Problem {
	switch {
	case errors.Is(err, webrtc.ErrClosed):
		return conflictOf("desktop streaming is not active")
	case errors.Is(err, webrtc.ErrTooManyOfOwner):
		return kind{"too_many_viewers", "Too Many Viewers", http.StatusTooManyRequests}.problem(err.Error())
	case errors.Is(err, webrtc.ErrTooManyViewers):
		return kind{"too_many_viewers", "Too Many Viewers", http.StatusServiceUnavailable}.problem(err.Error()).header(fiber.HeaderRetryAfter, "10")
	case errors.Is(err, webrtc.ErrNoCodec):
		return notAcceptable.problem("not acceptable: " + err.Error())
	case errors.Is(err, webrtc.ErrOffer):
		return invalidRequest.problem("invalid request: " + err.Error())
	case errors.Is(err, webrtc.ErrNoPort):
		return conflictOf(err.Error())
	case errors.Is(err, webrtc.ErrCodec):
		return conflictOf("failed to start the stream: " + err.Error())
	}
	return nil
}
