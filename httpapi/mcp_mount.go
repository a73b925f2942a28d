package httpapi

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// findDesktop returns an error if there is no such desktop or the agent may not have it.
func (s *Server) findDesktop(id string) error {
	if _, err := s.fleet.Find(id); err != nil {
		return problemOf(err, rest.Internal)
	}
	return s.cfg.users.mayMount()
}

// mount says how an agent that runs here reaches a desktop: by tools, over HTTP
// or, if it can only start programs, by one that relays; and by the variables
// that X programs need. The desktop is started if it does not run.
func (s *Server) mount(ctx, process context.Context, desktopID, agent string) (agents.Mount, error) {
	if err := s.findDesktop(desktopID); err != nil {
		return agents.Mount{}, err
	}
	d, err := s.startInstance(ctx, desktopID)
	if err != nil {
		return agents.Mount{}, err
	}
	out := agents.Mount{Env: displayEnv(d)}
	if agent == "claude" {
		// It would hide the tools behind a search, which models seldom make.
		out.Env = append(out.Env, "ENABLE_TOOL_SEARCH=false")
	}
	base := cmp.Or(s.cfg.AgentURL, s.rest.ListenURL())
	if base == "" {
		return out, nil // nobody listens, so there are no tools to reach
	}
	token, err := s.tokens.AgentToken(process, desktopID, agent)
	if err != nil {
		return agents.Mount{}, err
	}
	at := strings.TrimSuffix(base, "/") + mcpPath + "?desktop=" + url.QueryEscape(desktopID)
	out.Servers = []agents.MCPServer{{Name: mountName, URL: at, Headers: map[string]string{"Authorization": "Bearer " + token}}}
	if len(s.cfg.AgentRelay) > 0 {
		out.Servers = append(out.Servers, agents.MCPServer{
			Name: mountName, Command: s.cfg.AgentRelay[0],
			Args: append(slices.Clone(s.cfg.AgentRelay[1:]), "--endpoint", base, "--desktop", desktopID),
			Env:  map[string]string{"DESKHAND_TOKEN": token},
		})
	}
	return out, nil
}

// mountName is what agents call the desktop's tools.
const mountName = "desktop"

// displayEnv is what a program needs to be on a desktop, besides what it has
// already.
func displayEnv(d Desktop) []string {
	st := d.Status()
	env := []string{"DISPLAY=" + st.Display, "XAUTHORITY=" + st.Authority}
	full, ok := d.(interface{ Environ() ([]string, error) })
	if !ok {
		return env
	}
	all, err := full.Environ()
	if err != nil {
		return env // it is being restarted; display and authority stay
	}
	for _, kv := range all {
		if strings.HasPrefix(kv, "DBUS_SESSION_BUS_ADDRESS=") {
			env = append(env, kv)
		}
	}
	return env
}
