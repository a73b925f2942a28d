package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/desktop"
)

// mounts are the tokens with which agents that run here use desktops. They are
// kept in memory alone: the agents end with this server.
type mounts struct {
	mu     sync.Mutex                      // guards what follows
	url    string                          // at which programs on this machine reach the server; empty: none
	grants map[context.Context]*mountGrant // by the agent's process
}

type mountGrant struct {
	value string
	grant *grant
}

// reachable notes where the server listens. The first address counts.
func (m *mounts) reachable(at net.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tcp, ok := at.(*net.TCPAddr)
	if !ok || m.url != "" {
		return
	}
	host := tcp.IP.String()
	switch {
	case tcp.IP == nil || tcp.IP.IsUnspecified() && tcp.IP.To4() != nil:
		host = "127.0.0.1"
	case tcp.IP.IsUnspecified():
		host = "localhost" // whichever of the two protocols it takes
	}
	m.url = "http://" + net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}

// token returns the token by which an agent's process uses a desktop, and only that.
// It ends with the process. newest is the id of the desktop's newest recording.
func (m *mounts) token(process context.Context, desktopID, agent, newest string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g, ok := m.grants[process]; ok {
		return g.value
	}
	value := "dha_" + rand.Text()
	g := &grant{
		ID: newTokenID(), Name: agent, Scope: scopeAgent.String(), scope: scopeAgent, Desktop: desktopID,
		made: time.Now(), NewestRecording: newest, Hash: hashOf(value), actorID: mountedActor(agent).ID,
	}
	g.Created = g.made.UTC()
	g.ctx, g.end = context.WithCancel(process)
	if m.grants == nil {
		m.grants = map[context.Context]*mountGrant{}
	}
	m.grants[process] = &mountGrant{value, g}
	context.AfterFunc(process, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.grants, process)
	})
	return value
}

// mountedActor is the actor of an agent that runs here and uses a desktop.
func mountedActor(agent string) desktop.Actor {
	return desktop.Actor{Kind: desktop.ActorAgent, Name: agent, ID: "agent_" + agent}
}

// find returns the grant of a token, or nil.
func (m *mounts) find(value string) *grant {
	if !strings.HasPrefix(value, "dha_") {
		return nil
	}
	hash := hashOf(value)
	for _, g := range m.list() {
		if g.Hash == hash {
			return g
		}
	}
	return nil
}

// list returns the valid tokens in the order of their making.
func (m *mounts) list() []*grant {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*grant
	for _, g := range m.grants {
		if !g.grant.over() {
			list = append(list, g.grant)
		}
	}
	slices.SortFunc(list, func(a, b *grant) int { return a.Created.Compare(b.Created) })
	return list
}

// revoke ends a token. It returns false if there is none with that id. The process
// gets no other one.
func (m *mounts) revoke(id string) bool {
	for _, g := range m.list() {
		if g.ID == id {
			g.end()
			return true
		}
	}
	return false
}

// forget ends the tokens of a desktop that was deleted.
func (m *mounts) forget(desktopID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for process, g := range m.grants {
		if g.grant.Desktop == desktopID {
			delete(m.grants, process)
			g.grant.end()
		}
	}
}

// findDesktop returns an error if there is no such desktop or the agent may not have it.
func (s *Server) findDesktop(id string) error {
	if _, err := s.fleet.Find(id); err != nil {
		return problemOf(err, internal)
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
	s.mounts.mu.Lock()
	base := cmp.Or(s.cfg.AgentURL, s.mounts.url)
	s.mounts.mu.Unlock()
	if base == "" {
		return out, nil // nobody listens, so there are no tools to reach
	}
	newest, err := s.fleet.NewestRecording(desktopID)
	if err != nil {
		return agents.Mount{}, err
	}
	token := s.mounts.token(process, desktopID, agent, newest)
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
