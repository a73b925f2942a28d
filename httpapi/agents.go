package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/configuration"
	"github.com/deskhand/deskhand/internal/userhome"
)

// agentDir is the folder of a state directory that has everything about agents.
func agentDir(state string) string { return filepath.Join(state, "agents") }

// agentProcesses is the folder of a state directory in which it is recorded what to end
// should the server be killed.
func agentProcesses(state string) string { return filepath.Join(agentDir(state), "processes") }

// newRegistry returns the registry of agents. The records of its processes are in the
// directory with the records of clients' processes.
func newRegistry(cfg Config, state *fleet.StateDir) (*registry.Registry, error) {
	c := cfg.Agents
	c.Secrets = slices.Concat(c.Secrets, cfg.Secrets)
	c.RunAs = cmp.Or(c.RunAs, cfg.AgentHost.RunAs)
	c.Logger = cmp.Or(c.Logger, cfg.Logger)
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

// openFolders opens the store of folders' configuration. It shares the directory of
// the agents' host, and makes that directory with the first write.
func openFolders(cfg Config, state *fleet.StateDir) (*folders.Store, error) {
	trust := slices.Concat(cfg.TrustFolders, cfg.AgentHost.TrustFolders)
	for i, dir := range trust {
		trust[i] = userhome.Expand(dir)
	}
	locate := func(write bool) (string, error) {
		if !write {
			return agentDir(state.Path()), nil
		}
		dir, err := state.Claim()
		return agentDir(dir), err
	}
	s, err := folders.Open(folders.Config{Locate: locate, Trust: trust, RunAs: cfg.AgentHost.RunAs, Remedy: configuration.Remedy})
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return s, nil
}

// newAgentHost returns the host of agents, which has not started.
func (s *Server) newAgentHost() *agenthost.Host {
	return agenthost.New(agenthost.Config{
		Logger: s.log,
		Open: func(ctx context.Context, onAppend func(stream string, before, last int64)) (*eventlog.Log, error) {
			state, err := s.fleet.StateDir().Claim()
			if err != nil {
				return nil, asProblem(err)
			}
			cfg := s.cfg.EventLog
			cfg.DSN = cmp.Or(cfg.DSN, filepath.Join(agentDir(state), "events.db"))
			cfg.Logger = cmp.Or(cfg.Logger, s.log)
			cfg.OnAppend = func(stream string, before, last int64) {
				onAppend(stream, before, last)
				if also := s.cfg.EventLog.OnAppend; also != nil {
					also(stream, before, last)
				}
			}
			return eventlog.Open(ctx, cfg)
		},
		Start: func(ctx context.Context, log *eventlog.Log) (*agents.Host, error) {
			cfg := s.cfg.AgentHost
			cfg.Log, cfg.StateDir = log, agentDir(s.fleet.StateDir().Path())
			cfg.Folders, cfg.TrustFolders = s.folders, nil
			cfg.Registry = cmp.Or(cfg.Registry, s.registry)
			cfg.Logger = cmp.Or(cfg.Logger, s.log)
			if cfg.Mount == nil {
				cfg.Mount, cfg.FindDesktop = s.desktops.Mount, s.desktops.FindForAgent
			}
			cfg.CleanEnv = cfg.CleanEnv || s.cfg.EnvPolicy == desktop.EnvClean
			cfg.Secrets = slices.Concat(cfg.Secrets, s.cfg.Secrets)
			return agents.Start(ctx, cfg)
		},
	})
}

// OpenAgents opens the log of agents' sessions and completes the work that a killed
// server left unfinished. Without this call, the first request about sessions does so.
// OpenAgents returns ErrInUse if another server uses the state directory.
func (s *Server) OpenAgents(ctx context.Context) error {
	_, err := s.agents.Get(ctx)
	return err
}
