package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

var (
	agentExited     = kind{"agent_process_exited", "Agent Process Exited", http.StatusInternalServerError}
	sessionNotFound = kind{"session_not_found", "Session Not Found", http.StatusNotFound}
	sessionExists   = kind{"session_already_exists", "Session Already Exists", http.StatusConflict}
	logUnavailable  = kind{"stream_error", "Service Unavailable", http.StatusServiceUnavailable}
)

// hostProblem is the answer to an error of package agents, or nil. server and
// agent are what the request named, for errors that do not tell.
func hostProblem(err error, server, agent string) *Problem {
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
		return invalidRequest.problem("invalid request: " + err.Error())
	case errors.Is(err, agents.ErrAgentNeeded):
		return invalidRequest.problem("invalid request: missing required 'agent' query parameter for first POST to /v1/acp/" + server)
	case errors.As(err, &bad):
		return invalidRequest.problem("invalid request: "+bad.Error()).with("field", bad.Field)
	case errors.As(err, &other), errors.As(err, &elsewhere):
		return conflictOf(err.Error())
	case errors.As(err, &exited):
		return exitedProblem(exited)
	case errors.As(err, &start):
		return streamError.problem("stream error: "+start.Error()).with("agent", start.Agent).with("details", map[string]any{"message": start.Error()})
	case errors.As(err, &late):
		return timedOut.problem("timeout: "+err.Error()).with("details", map[string]any{"message": err.Error()})
	case errors.As(err, &refused):
		return streamError.problem("stream error: "+err.Error()).with("details", refusal(refused))
	case errors.Is(err, agents.ErrServerNotFound) && errors.As(err, &lost) && lost.Session == server:
		return conflictOf(err.Error() + "; it was deleted meanwhile: try again") // the session is there
	case errors.Is(err, agents.ErrServerNotFound), errors.Is(err, agents.ErrSessionNotFound):
		return noSession(server)
	case errors.Is(err, agents.ErrSessionExists):
		return sessionExists.problem("session already exists: "+server).with("sessionId", server)
	case errors.Is(err, agents.ErrSessionEnded):
		return conflictOf("session has ended: " + server)
	case errors.Is(err, agents.ErrSessionStarting):
		return conflictOf("session is being made: "+server+"; try again").header("Retry-After", "1")
	case errors.Is(err, agents.ErrTooManyRequests):
		return logUnavailable.problem("stream error: "+err.Error()).header("Retry-After", "1")
	case errors.Is(err, agents.ErrRequestNotFound):
		return missing("request", server)
	case errors.Is(err, agents.ErrClosed):
		return shuttingDown.problem("the server is shutting down")
	}
	return cmp.Or(logProblem(err), agentProblem(err, agent), restoreProblem(err))
}

// restoreProblem is the answer when a session cannot be restored for a reason
// that says nothing by itself, or nil.
func restoreProblem(err error) *Problem {
	lost, ok := errors.AsType[*agents.RestoreError](err)
	switch {
	case !ok:
		return nil
	case errors.Is(err, eventlog.ErrNotFound):
		return noSession(lost.Session)
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut.problem("timeout: "+err.Error()).with("details", map[string]any{"message": err.Error()})
	}
	return streamError.problem("stream error: "+err.Error()).with("details", map[string]any{"message": err.Error()})
}

// refusal is an agent's error, as it gave it.
func refusal(e *agents.ResponseError) map[string]any {
	details := map[string]any{"message": e.Message, "code": e.Code}
	if json.Valid(e.Data) {
		details["data"] = json.RawMessage(e.Data)
	}
	return details
}

func noSession(id string) *Problem {
	return sessionNotFound.problem("session not found: "+id).with("sessionId", id)
}

func exitedProblem(e *agents.ExitedError) *Problem {
	return agentExited.problem(e.Error()).with("agent", e.Agent).with("details", exitDetails(e))
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
func logProblem(err error) *Problem {
	var damaged *eventlog.CorruptError
	switch {
	case errors.Is(err, eventlog.ErrBusy), errors.Is(err, eventlog.ErrUnavailable), errors.Is(err, eventlog.ErrUncertain):
		return logUnavailable.problem("stream error: "+err.Error()).header("Retry-After", "1")
	case errors.Is(err, eventlog.ErrInUse), errors.As(err, &damaged):
		return logUnavailable.problem("stream error: " + err.Error())
	case errors.Is(err, eventlog.ErrClosed):
		return shuttingDown.problem("the server is shutting down")
	}
	return nil
}
