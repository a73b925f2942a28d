package httpapi

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/deskhand/deskhand/agents/registry"
)

// The kinds of problem that are about agents.
var (
	unsupportedAgent  = kind{"unsupported_agent", "Unsupported Agent", http.StatusBadRequest}
	agentNotInstalled = kind{"agent_not_installed", "Agent Not Installed", http.StatusNotFound}
	installFailed     = kind{"install_failed", "Install Failed", http.StatusInternalServerError}
)

// agentProblem is the answer to an error of package agents/registry about an
// agent, or nil. All but one of them name the agent themselves.
func agentProblem(err error, agent string) *Problem {
	var absent *registry.NotInstalledError
	var failed *registry.InstallError
	var bad *registry.InvalidError
	switch {
	case errors.Is(err, registry.ErrUnknownAgent):
		return unsupportedAgent.problem("unsupported agent: "+agent).with("agent", agent)
	case errors.As(err, &failed):
		details := map[string]any{"stderr": cmp.Or(failed.Stderr, failed.Err.Error()), "stage": failed.Stage, "message": failed.Error()}
		if failed.Remedy != "" {
			details["remedy"] = failed.Remedy
		}
		return installFailed.problem("install failed: "+failed.Agent+": "+failed.Error()).with("agent", failed.Agent).with("details", details)
	case errors.As(err, &absent):
		return agentNotInstalled.problem(absent.Error()).with("agent", absent.Agent)
	case errors.As(err, &bad):
		return invalidRequest.problem("invalid request: " + bad.Error())
	case errors.Is(err, registry.ErrClosed):
		return shuttingDown.problem("the server is shutting down")
	}
	return nil
}
