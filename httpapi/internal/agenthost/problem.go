package agenthost

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

var (
	agentExited       = rest.Kind{Code: "agent_process_exited", Title: "Agent Process Exited", Status: http.StatusInternalServerError}
	sessionNotFound   = rest.Kind{Code: "session_not_found", Title: "Session Not Found", Status: http.StatusNotFound}
	sessionExists     = rest.Kind{Code: "session_already_exists", Title: "Session Already Exists", Status: http.StatusConflict}
	unsupportedAgent  = rest.Kind{Code: "unsupported_agent", Title: "Unsupported Agent", Status: http.StatusBadRequest}
	agentNotInstalled = rest.Kind{Code: "agent_not_installed", Title: "Agent Not Installed", Status: http.StatusNotFound}
	tooManySessions   = rest.Kind{Code: "too_many_sessions", Title: "Too Many Sessions", Status: http.StatusServiceUnavailable}
	noMemory          = rest.Kind{Code: "no_memory", Title: "No Memory", Status: http.StatusServiceUnavailable}
	installFailed     = rest.Kind{Code: "install_failed", Title: "Install Failed", Status: http.StatusInternalServerError}
)

// Names has what a request names, for errors that do not say what they are about. Session
// is the id of a session or of an ACP server.
type Names struct{ Session, Request, Agent string }

// namesIn returns what the URL of a request names.
func namesIn(r *rest.Request) Names {
	return Names{
		Session: cmp.Or(r.Param("serverId"), r.Param("sessionId")),
		Request: cmp.Or(r.Param("permissionId"), r.Param("questionId")),
		Agent:   cmp.Or(r.Param("agent"), r.Query("agent")),
	}
}

// Add is like rest.Add, but errors that handle returns are about what the URL names.
func Add[I, O any](g rest.Group, r rest.Route, handle func(context.Context, *I) (*O, error)) {
	rest.Add(g, r, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			err = namesIn(rest.RequestIn(ctx)).Explain(err)
		}
		return out, err
	})
}

// QuestionTooLarge returns the problem for an answer to a question whose params the log left out.
func QuestionTooLarge(id string) *rest.Problem {
	return rest.ConflictOf("question " + id + " is too large to be answered here; reject it, or answer it in an ACP response")
}

// QuestionUnreadable returns the problem for an answer to a question whose params cannot be read.
func QuestionUnreadable(id string, err error) *rest.Problem {
	return rest.ConflictOf("question " + id + " cannot be answered here: " + err.Error() + "; reject it, or answer it in an ACP response")
}

// Explain returns the problem for an error, or err if it has none.
func (n Names) Explain(err error) error {
	if p := n.Problem(err); p != nil {
		return p
	}
	return err
}

// Problem returns the problem for an error of package agents, registry or eventlog, or nil if
// err is another error.
func (n Names) Problem(err error) *rest.Problem {
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
	case err == nil:
		return nil
	case rest.NoSpaceLeft(err), errors.Is(err, eventlog.ErrFull):
		if p, ok := errors.AsType[*rest.Problem](err); ok {
			return p
		}
		return rest.DiskFull(err.Error())
	case errors.As(err, &envelope), errors.Is(err, agents.ErrNotObject):
		return rest.InvalidRequest.Problem("invalid request: " + err.Error())
	case errors.Is(err, agents.ErrAgentNeeded):
		return rest.InvalidRequest.Problem("invalid request: missing required 'agent' query parameter for first POST to /v1/acp/" + n.Session)
	case errors.As(err, &bad):
		return rest.InvalidRequest.Problem("invalid request: "+bad.Error()).With("field", bad.Field)
	case errors.As(err, &other):
		return rest.ConflictOf(err.Error())
	case errors.As(err, &elsewhere):
		return elsewhereProblem(err, elsewhere)
	case errors.As(err, &exited):
		return agentExited.Problem(exited.Error()).With("agent", exited.Agent).With("details", ExitDetails(exited))
	case errors.As(err, &start):
		return rest.StreamError.Message(start.Error()).With("agent", start.Agent)
	case errors.As(err, &late):
		return rest.TimedOut.Message(err.Error())
	case errors.As(err, &refused):
		return rest.StreamError.Problem("stream error: "+err.Error()).With("details", refusal(refused))
	case errors.Is(err, agents.ErrServerNotFound) && errors.As(err, &lost) && lost.Session == n.Session:
		return rest.ConflictOf(err.Error() + "; it was deleted meanwhile: try again") // the session is there
	case errors.Is(err, agents.ErrServerNotFound), errors.Is(err, agents.ErrSessionNotFound):
		return NoSession(n.Session)
	case errors.Is(err, agents.ErrSessionExists):
		return sessionExists.Problem("session already exists: "+n.Session).With("sessionId", n.Session)
	case errors.Is(err, agents.ErrSessionEnded):
		return rest.ConflictOf("session has ended: " + n.Session)
	case errors.Is(err, agents.ErrSessionStarting):
		return rest.ConflictOf("session is being made: "+n.Session+"; try again").WithHeader("Retry-After", "1")
	case errors.Is(err, agents.ErrTooManyRequests):
		return rest.Unavailable.Problem("stream error: "+err.Error()).WithHeader("Retry-After", "1")
	case errors.Is(err, agents.ErrTooManyAgents):
		return tooManySessions.Problem(err.Error()).WithHeader("Retry-After", "30")
	case errors.Is(err, agents.ErrNoMemory):
		return noMemory.Problem(err.Error()).WithHeader("Retry-After", "30")
	case errors.Is(err, agents.ErrDraining):
		return rest.Closing().WithHeader("Retry-After", "1")
	case errors.Is(err, agents.ErrRequestNotFound):
		return rest.Missing("request", n.Request)
	case errors.Is(err, agents.ErrClosed):
		return rest.Closing()
	}
	return cmp.Or(logProblem(err), n.registryProblem(err), restoreProblem(err))
}

// elsewhereProblem returns the problem for an agent that runs in another server.
func elsewhereProblem(err error, elsewhere *agents.ElsewhereError) *rest.Problem {
	p := rest.ConflictOf(err.Error())
	if p.At = elsewhere.Address; p.At != "" {
		p = p.With("server", p.At)
	}
	return p
}

// restoreProblem returns the problem for a session that could not be restored, if no other
// table has one for the reason, or nil if err is another error.
func restoreProblem(err error) *rest.Problem {
	lost, ok := errors.AsType[*agents.RestoreError](err)
	switch {
	case !ok:
		return nil
	case errors.Is(err, eventlog.ErrNotFound):
		return NoSession(lost.Session)
	case errors.Is(err, context.DeadlineExceeded):
		return rest.TimedOut.Message(err.Error())
	}
	return rest.StreamError.Message(err.Error())
}

// refusal returns the details of an error of an agent.
func refusal(e *agents.ResponseError) map[string]any {
	details := map[string]any{"message": e.Message, "code": e.Code}
	if json.Valid(e.Data) {
		details["data"] = json.RawMessage(e.Data)
	}
	return details
}

// NoSession returns the problem for a session that does not exist.
func NoSession(id string) *rest.Problem {
	return sessionNotFound.Problem("session not found: "+id).With("sessionId", id)
}

// ExitDetails returns the details of an error about an agent's process that has ended.
func ExitDetails(e *agents.ExitedError) map[string]any {
	details := map[string]any{"stderr": e.Stderr}
	if e.Code != nil {
		details["exitCode"] = *e.Code
	}
	if e.Signal != "" {
		details["signal"] = e.Signal
	}
	return details
}

// logProblem returns the problem for an error of the event log, or nil if err is another error.
func logProblem(err error) *rest.Problem {
	var damaged *eventlog.CorruptError
	switch {
	case errors.Is(err, eventlog.ErrBusy), errors.Is(err, eventlog.ErrUnavailable), errors.Is(err, eventlog.ErrUncertain):
		return rest.Unavailable.Problem("stream error: "+err.Error()).WithHeader("Retry-After", "1")
	case errors.Is(err, eventlog.ErrInUse), errors.As(err, &damaged):
		return rest.Unavailable.Problem("stream error: " + err.Error())
	case errors.Is(err, eventlog.ErrClosed):
		return rest.Closing()
	}
	return nil
}

// registryProblem returns the problem for an error of package registry, or nil if err is
// another error.
func (n Names) registryProblem(err error) *rest.Problem {
	var absent *registry.NotInstalledError
	var failed *registry.InstallError
	var bad *registry.InvalidError
	switch {
	case errors.Is(err, registry.ErrUnknownAgent):
		return unsupportedAgent.Problem("unsupported agent: "+n.Agent).With("agent", n.Agent)
	case errors.As(err, &failed):
		details := map[string]any{"stderr": cmp.Or(failed.Stderr, failed.Err.Error()), "stage": failed.Stage, "message": failed.Error()}
		if failed.Remedy != "" {
			details["remedy"] = failed.Remedy
		}
		return installFailed.Problem("install failed: "+failed.Agent+": "+failed.Error()).With("agent", failed.Agent).With("details", details)
	case errors.As(err, &absent):
		return agentNotInstalled.Problem(absent.Error()).With("agent", absent.Agent)
	case errors.As(err, &bad):
		return rest.InvalidRequest.Problem("invalid request: " + bad.Error())
	case errors.Is(err, registry.ErrClosed):
		return rest.Closing()
	}
	return nil
}
