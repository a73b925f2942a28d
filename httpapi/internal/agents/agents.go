package agents

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// agentInfo describes an agent. Its first members are sandbox-agent's.
type agentInfo struct {
	ID                   string                `json:"id" example:"claude"`
	Installed            bool                  `json:"installed"`
	CredentialsAvailable bool                  `json:"credentialsAvailable" doc:"Whether the agent finds an API key or a token on this machine, or needs none"`
	Version              string                `json:"version,omitempty" doc:"Installed version; requires config=true"`
	Path                 string                `json:"path,omitempty" doc:"Path of the program; requires config=true"`
	Capabilities         registry.Capabilities `json:"capabilities"`
	ServerStatus         *agentServerStatus    `json:"serverStatus,omitempty"`
	ConfigOptions        []agentOption         `json:"configOptions,omitzero" nullable:"false" doc:"Options of its sessions, as the agent reported them in its last run, or from a built-in table; requires config=true"`
	ConfigError          string                `json:"configError,omitempty" doc:"Why the agent could not be asked for its options"`
	Name                 string                `json:"name" example:"Claude Code"`
	Note                 string                `json:"note,omitempty" doc:"Advice for choosing an agent"`
}

type agentServerStatus struct {
	Status   string `json:"status" enum:"running,stopped"`
	UptimeMS *int64 `json:"uptimeMs,omitempty" doc:"Uptime of the oldest running process"`
}

type agentOption struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Category string        `json:"category" doc:"model, mode, thought_level, or a category of the agent"`
	Type     string        `json:"type" enum:"select"`
	Current  string        `json:"currentValue"`
	Choices  []agentChoice `json:"options" nullable:"false"`
}

type agentChoice struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Query selects what an answer says about an agent.
type Query struct {
	Config  bool `query:"config" doc:"Include versions, paths and options"`
	NoCache bool `query:"no_cache" doc:"With config: start the installed agents and ask them"`
}

type agentInput struct {
	Agent string `path:"agent" example:"claude"`
	Query
}

type agentList struct {
	Agents []agentInfo `json:"agents" nullable:"false"`
}

type agentModes struct {
	Modes []agentMode `json:"modes" nullable:"false"`
}

type agentMode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type agentPath struct {
	Agent string `path:"agent" example:"claude"`
}

// Config configures the routes of agents.
type Config struct {
	Registry *registry.Registry

	// Servers returns the status of the servers of each agent that has servers.
	Servers func(context.Context) map[string]agents.AgentStatus

	// CanStart returns an error unless another agent may start now.
	CanStart func() error
}

// area is the area of agents.
type area struct {
	rest.Group
	Config
}

// Register adds the routes of agents.
func Register(api *rest.API, cfg Config) {
	a := &area{rest.Group{API: api}, cfg}

	r := rest.Route{Tag: "Agents", Scope: grants.ScopeSupervise, Errors: []int{http.StatusBadRequest}}
	asks := r // it may start agents
	asks.UntilGone = true
	agenthost.Add(a.Group, asks.Get("listAgents", "/v1/agents", "List the agents that can be hosted").
		WithAbout("Models, modes and thought levels are from the last run of the agent, or from a built-in table."), a.list)
	agenthost.Add(a.Group, asks.Get("getAgent", "/v1/agents/{agent}", "Get an agent"), a.get)
	agenthost.Add(a.Group, r.Get("listAgentModes", "/v1/agents/{agent}/modes", "List the modes of an agent's sessions"), a.modes)
	a.registerInstall(r)
	a.registerProgress(r)
}

func (a *area) list(ctx context.Context, q *Query) (*rest.Output[agentList], error) {
	all := a.Registry.Agents()
	servers, credentials := a.Servers(ctx), a.Registry.AgentsWithCredentials()
	list := agentList{make([]agentInfo, len(all))}
	var group errgroup.Group
	for i, agent := range all {
		group.Go(func() error {
			list.Agents[i] = a.describe(ctx, agent, servers, credentials, *q)
			return nil
		})
	}
	err := group.Wait()
	return rest.Reply(list, err)
}

func (a *area) get(ctx context.Context, in *agentInput) (*rest.Output[agentInfo], error) {
	agent, err := a.Registry.Agent(in.Agent)
	if err != nil {
		return nil, err
	}
	return rest.Reply(a.describe(ctx, agent, a.Servers(ctx), a.Registry.AgentsWithCredentials(), in.Query), nil)
}

// describe describes an agent; with NoCache, after it was asked.
func (a *area) describe(ctx context.Context, agent registry.Agent, servers map[string]agents.AgentStatus, credentials map[string]bool, q Query) agentInfo {
	command, absent := a.Registry.Command(agent.ID)
	info := agentInfo{ID: agent.ID, Name: agent.Name, Installed: absent == nil, CredentialsAvailable: credentials[agent.ID]}
	if q.Config && q.NoCache && info.Installed {
		err := a.CanStart()
		if err == nil {
			err = a.Registry.Ask(ctx, agent.ID)
		}
		if err != nil {
			info.ConfigError = err.Error()
		}
		if asked, err := a.Registry.Agent(agent.ID); err == nil {
			agent = asked
		}
	}
	info.Capabilities, info.Note = agent.Capabilities, agent.Note
	if status, ok := servers[agent.ID]; ok {
		info.ServerStatus = statusOf(status)
	}
	if !q.Config {
		return info
	}
	info.Version, info.Path = command.Version, command.Program
	if info.Installed && info.Version == "" {
		info.Version = a.Registry.ObservedVersion(agent.ID)
	}
	info.ConfigOptions = []agentOption{}
	for _, o := range agent.Options {
		choices := make([]agentChoice, len(o.Choices))
		for i, c := range o.Choices {
			choices[i] = agentChoice(c)
		}
		info.ConfigOptions = append(info.ConfigOptions, agentOption{o.ID, o.Name, o.Category, o.Type, o.Current, choices})
	}
	return info
}

// statusOf describes the servers of an agent.
func statusOf(s agents.AgentStatus) *agentServerStatus {
	if !s.Running {
		return &agentServerStatus{Status: "stopped"}
	}
	up := max(0, time.Since(s.Since).Milliseconds())
	return &agentServerStatus{Status: "running", UptimeMS: &up}
}

func (a *area) modes(_ context.Context, in *agentPath) (*rest.Output[agentModes], error) {
	agent, err := a.Registry.Agent(in.Agent)
	list := agentModes{[]agentMode{}}
	for _, o := range agent.Options {
		if o.Category != registry.CategoryMode {
			continue
		}
		for _, c := range o.Choices {
			list.Modes = append(list.Modes, agentMode{c.Value, c.Name, c.Description})
		}
	}
	return rest.Reply(list, err)
}
