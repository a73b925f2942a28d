package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

var (
	agentExited     = rest.Kind{Code: "agent_process_exited", Title: "Agent Process Exited", Status: http.StatusInternalServerError}
	sessionNotFound = rest.Kind{Code: "session_not_found", Title: "Session Not Found", Status: http.StatusNotFound}
	sessionExists   = rest.Kind{Code: "session_already_exists", Title: "Session Already Exists", Status: http.StatusConflict}
	logUnavailable  = rest.Kind{Code: "stream_error", Title: "Service Unavailable", Status: http.StatusServiceUnavailable}
)

// hostProblem is the answer to an error of package agents, or nil. server and
// agent are what the request named, for errors that do not tell.
func hostProblem(err error, server, agent string) *rest.Problem {
	var envelope *agents.EnvelopeError
	var other *agents.ConflictError
	var elsewhere *agents.ElsewhereError
	var exited *agents.ExitedError
	var start *agents.StartError
	var late *agents.TimeoutError
	var lost *agents.RestoreError
	var refused *agents.ResponseError
	var bad *agents.InvalidError
	switch {
	case NoSpace(err):
		return fullProblem(err)
	case errors.As(err, &envelope), errors.Is(err, agents.ErrNotObject):
		return rest.InvalidRequest.Problem("invalid request: " + err.Error())
	case errors.Is(err, agents.ErrAgentNeeded):
		return rest.InvalidRequest.Problem("invalid request: missing required 'agent' query parameter for first POST to /v1/acp/" + server)
	case errors.As(err, &bad):
		return rest.InvalidRequest.Problem("invalid request: "+bad.Error()).With("field", bad.Field)
	case errors.As(err, &other), errors.As(err, &elsewhere):
		return rest.ConflictOf(err.Error())
	case errors.As(err, &exited):
		return exitedProblem(exited)
	case errors.As(err, &start):
		return rest.StreamError.Problem("stream error: "+start.Error()).With("agent", start.Agent).With("details", map[string]any{"message": start.Error()})
	case errors.As(err, &late):
		return rest.TimedOut.Problem("timeout: "+err.Error()).With("details", map[string]any{"message": err.Error()})
	case errors.As(err, &refused):
		return rest.StreamError.Problem("stream error: "+err.Error()).With("details", refusal(refused))
	case errors.Is(err, agents.ErrServerNotFound) && errors.As(err, &lost) && lost.Session == server:
		return rest.ConflictOf(err.Error() + "; it was deleted meanwhile: try again") // the session is there
	case errors.Is(err, agents.ErrServerNotFound), errors.Is(err, agents.ErrSessionNotFound):
		return noSession(server)
	case errors.Is(err, agents.ErrSessionExists):
		return sessionExists.Problem("session already exists: "+server).With("sessionId", server)
	case errors.Is(err, agents.ErrSessionEnded):
		return rest.ConflictOf("session has ended: " + server)
	case errors.Is(err, agents.ErrSessionStarting):
		return rest.ConflictOf("session is being made: "+server+"; try again").WithHeader("Retry-After", "1")
	case errors.Is(err, agents.ErrTooManyRequests):
		return logUnavailable.Problem("stream error: "+err.Error()).WithHeader("Retry-After", "1")
	case errors.Is(err, agents.ErrRequestNotFound):
		return rest.Missing("request", server)
	case errors.Is(err, agents.ErrClosed):
		return rest.ShuttingDown.Problem("the server is shutting down")
	}
	return cmp.Or(logProblem(err), agentProblem(err, agent), restoreProblem(err))
}

// restoreProblem is the answer when a session cannot be restored for a reason
// that says nothing by itself, or nil.
func restoreProblem(err error) *rest.Problem {
	lost, ok := errors.AsType[*agents.RestoreError](err)
	switch {
	case !ok:
		return nil
	case errors.Is(err, eventlog.ErrNotFound):
		return noSession(lost.Session)
	case errors.Is(err, context.DeadlineExceeded):
		return rest.TimedOut.Problem("timeout: "+err.Error()).With("details", map[string]any{"message": err.Error()})
	}
	return rest.StreamError.Problem("stream error: "+err.Error()).With("details", map[string]any{"message": err.Error()})
}

// refusal is an agent's error, as it gave it.
func refusal(e *agents.ResponseError) map[string]any {
	details := map[string]any{"message": e.Message, "code": e.Code}
	if json.Valid(e.Data) {
		details["data"] = json.RawMessage(e.Data)
	}
	return details
}

func noSession(id string) *rest.Problem {
	return sessionNotFound.Problem("session not found: "+id).With("sessionId", id)
}

func exitedProblem(e *agents.ExitedError) *rest.Problem {
	return agentExited.Problem(e.Error()).With("agent", e.Agent).With("details", exitDetails(e))
}

func exitDetails(e *agents.ExitedError) map[string]any {
	details := map[string]any{"stderr": e.Stderr}
	if e.Code != nil {
		details["exitCode"] = *e.Code
	}
	if e.Signal != "" {
		details["signal"] = e.Signal
	}
	return details
}

// logProblem is the answer to an error of the event log, or nil.
func logProblem(err error) *rest.Problem {
	var damaged *eventlog.CorruptError
	switch {
	case errors.Is(err, eventlog.ErrBusy), errors.Is(err, eventlog.ErrUnavailable), errors.Is(err, eventlog.ErrUncertain):
		return logUnavailable.Problem("stream error: "+err.Error()).WithHeader("Retry-After", "1")
	case errors.Is(err, eventlog.ErrInUse), errors.As(err, &damaged):
		return logUnavailable.Problem("stream error: " + err.Error())
	case errors.Is(err, eventlog.ErrClosed):
		return rest.ShuttingDown.Problem("the server is shutting down")
	}
	return nil
}
