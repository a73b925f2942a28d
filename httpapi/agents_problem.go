package httpapi

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// The kinds of problem that are about agents.
var (
	unsupportedAgent  = rest.Kind{Code: "unsupported_agent", Title: "Unsupported Agent", Status: http.StatusBadRequest}
	agentNotInstalled = rest.Kind{Code: "agent_not_installed", Title: "Agent Not Installed", Status: http.StatusNotFound}
	installFailed     = rest.Kind{Code: "install_failed", Title: "Install Failed", Status: http.StatusInternalServerError}
)

// agentProblem is the answer to an error of package agents/registry about an
// agent, or nil. All but one of them name the agent themselves.
func agentProblem(err error, agent string) *rest.Problem {
	var absent *registry.NotInstalledError
	var failed *registry.InstallError
	var bad *registry.InvalidError
	switch {
	case errors.Is(err, registry.ErrUnknownAgent):
		return unsupportedAgent.Problem("unsupported agent: "+agent).With("agent", agent)
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
		return rest.ShuttingDown.Problem("the server is shutting down")
	}
	return nil
}
