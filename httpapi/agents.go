package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// agentInfo describes an agent. Its first members are those of sandbox-agent.
type agentInfo struct {
	ID                   string                `json:"id" example:"claude"`
	Installed            bool                  `json:"installed"`
	CredentialsAvailable bool                  `json:"credentialsAvailable" doc:"It would find a key or a token on this machine, or needs none"`
	Version              string                `json:"version,omitempty" doc:"With config=true"`
	Path                 string                `json:"path,omitempty" doc:"What is started; with config=true"`
	Capabilities         registry.Capabilities `json:"capabilities"`
	ServerStatus         *agentServerStatus    `json:"serverStatus,omitempty"`
	ConfigOptions        []agentOption         `json:"configOptions,omitzero" nullable:"false" doc:"What can be chosen for its sessions: as it said when it last ran, else what is known of it; with config=true"`
	ConfigError          string                `json:"configError,omitempty" doc:"Why it could not be asked"`
	Name                 string                `json:"name" example:"Claude Code"`
	Note                 string                `json:"note,omitempty" doc:"What to know before choosing it"`
}

type agentServerStatus struct {
	Status   string `json:"status" enum:"running,stopped"`
	UptimeMS *int64 `json:"uptimeMs,omitempty" doc:"Of the oldest that runs"`
}

type agentOption struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Category string        `json:"category" doc:"model, mode, thought_level, or the agent's own"`
	Type     string        `json:"type" enum:"select"`
	Current  string        `json:"currentValue"`
	Choices  []agentChoice `json:"options" nullable:"false"`
}

type agentChoice struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// AgentQuery is exported because huma sees embedded fields only then.
type AgentQuery struct {
	Config  bool `query:"config" doc:"Tell versions, paths and options as well"`
	NoCache bool `query:"no_cache" doc:"With config: start what is installed and ask it"`
}

type agentsInput struct{ AgentQuery }

type agentInput struct {
	Agent string `path:"agent" example:"claude"`
	AgentQuery
}

type (
	agentList struct {
		Agents []agentInfo `json:"agents" nullable:"false"`
	}
	agentsOutput struct{ Body agentList }
	agentOutput  struct{ Body agentInfo }
)

type agentModes struct {
	Modes []agentMode `json:"modes" nullable:"false"`
}

type agentMode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type (
	modesInput struct {
		Agent string `path:"agent" example:"claude"`
	}
	modesOutput struct{ Body agentModes }
)

func (s *Server) registerAgents() {
	r := rest.Route{Tag: "Agents", Errors: []int{http.StatusBadRequest}}
	list := r
	list.ID, list.Method, list.Path, list.Summary = "listAgents", http.MethodGet, "/v1/agents", "List the agents that can be hosted"
	list.About = "Models, modes and thought levels are those that an agent named when it last ran, else those of a table."
	rest.Add(s.routes, list, s.listAgents)

	get := r
	get.ID, get.Method, get.Path, get.Summary = "getAgent", http.MethodGet, "/v1/agents/{agent}", "Tell about one agent"
	rest.Add(s.routes, get, func(ctx context.Context, in *agentInput) (*agentOutput, error) {
		a, err := s.registry.Agent(in.Agent)
		if err != nil {
			return nil, agentProblem(err, in.Agent)
		}
		return &agentOutput{s.agentInfo(ctx, a, s.serversByAgent(ctx), s.registry.AgentsWithCredentials(), in.AgentQuery)}, nil
	})

	modes := r
	modes.ID, modes.Method, modes.Path, modes.Summary = "listAgentModes", http.MethodGet, "/v1/agents/{agent}/modes", "List the modes of an agent's sessions"
	rest.Add(s.routes, modes, func(_ context.Context, in *modesInput) (*modesOutput, error) {
		a, err := s.registry.Agent(in.Agent)
		if err != nil {
			return nil, agentProblem(err, in.Agent)
		}
		return &modesOutput{modesOf(a)}, nil
	})
	s.registerInstall(r)
	s.registerInstallEvents(r)
}

func (s *Server) listAgents(ctx context.Context, in *agentsInput) (*agentsOutput, error) {
	all := s.registry.Agents()
	servers, credentials := s.serversByAgent(ctx), s.registry.AgentsWithCredentials()
	out := &agentsOutput{agentList{make([]agentInfo, len(all))}}
	var group errgroup.Group
	group.SetLimit(2) // agents take a lot of memory while they start
	for i, a := range all {
		group.Go(func() error {
			out.Body.Agents[i] = s.agentInfo(ctx, a, servers, credentials, in.AgentQuery)
			return nil
		})
	}
	return out, group.Wait()
}

// serversByAgent tells which agents have servers.
func (s *Server) serversByAgent(ctx context.Context) map[string]agents.AgentStatus {
	if s.agentServers == nil {
		return nil
	}
	return s.agentServers(ctx)
}

// agentInfo describes an agent; with NoCache, once it was asked.
func (s *Server) agentInfo(ctx context.Context, a registry.Agent, servers map[string]agents.AgentStatus, credentials map[string]bool, q AgentQuery) agentInfo {
	c, absent := s.registry.Command(a.ID)
	info := agentInfo{ID: a.ID, Name: a.Name, Installed: absent == nil, CredentialsAvailable: credentials[a.ID]}
	if q.Config && q.NoCache && info.Installed {
		if err := s.registry.Ask(ctx, a.ID); err != nil {
			info.ConfigError = err.Error()
		}
		if asked, err := s.registry.Agent(a.ID); err == nil {
			a = asked
		}
	}
	info.Capabilities, info.Note = a.Capabilities, a.Note
	if status, ok := servers[a.ID]; ok {
		info.ServerStatus = serverStatusOf(status)
	}
	if !q.Config {
		return info
	}
	info.Version, info.Path = c.Version, c.Program
	if info.Installed && info.Version == "" {
		info.Version = s.registry.Heard(a.ID).Version
	}
	info.ConfigOptions = []agentOption{}
	for _, o := range a.Options {
		choices := make([]agentChoice, len(o.Choices))
		for i, c := range o.Choices {
			choices[i] = agentChoice(c)
		}
		info.ConfigOptions = append(info.ConfigOptions, agentOption{o.ID, o.Name, o.Category, o.Type, o.Current, choices})
	}
	return info
}

// serverStatusOf describes the servers of an agent.
func serverStatusOf(s agents.AgentStatus) *agentServerStatus {
	if !s.Running {
		return &agentServerStatus{Status: "stopped"}
	}
	up := max(0, time.Since(s.Since).Milliseconds())
	return &agentServerStatus{Status: "running", UptimeMS: &up}
}

func modesOf(a registry.Agent) agentModes {
	modes := agentModes{[]agentMode{}}
	for _, o := range a.Options {
		if o.Category != registry.CategoryMode {
			continue
		}
		for _, c := range o.Choices {
			modes.Modes = append(modes.Modes, agentMode{c.Value, c.Name, c.Description})
		}
	}
	return modes
}

// newRegistry makes the registry of agents. What it runs is written down where
// clients' processes are.
func newRegistry(cfg Config, state *fleet.StateDir) (*registry.Registry, error) {
	c := cfg.Agents
	c.Secrets = slices.Concat(c.Secrets, cfg.Secrets)
	c.RunAs = cmp.Or(c.RunAs, cfg.AgentHost.RunAs)
	if c.Logger == nil {
		c.Logger = cfg.Logger
	}
	if c.Records == nil {
		c.Records = func() (string, error) {
			dir, err := state.Claim()
			return processDir(dir), err
		}
	}
	r, err := registry.New(c)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return r, nil
}
