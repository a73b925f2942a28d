package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/configuration"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
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
	c.Untrusted = append(slices.Clip(c.Untrusted), cfg.DesktopUser)
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

// agentDir returns the directory of the state directory that has everything about agents. With
// write, the server may write there.
func (s *Server) agentDir(write bool) (string, error) {
	if !write {
		return agentDir(s.fleet.StateDir().Path()), nil
	}
	dir, err := s.fleet.StateDir().Claim()
	return agentDir(dir), err
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
		Folder: s.cfg.sessionFolder,
		Open: func(ctx context.Context, onAppend func(stream string, before, last int64), onSession func(id string)) (*eventlog.Log, error) {
			state, err := s.fleet.StateDir().Claim()
			if err != nil {
				return nil, asProblem(err)
			}
			cfg := s.cfg.EventLog
			cfg.DSN = cmp.Or(cfg.DSN, filepath.Join(agentDir(state), "events.db"))
			cfg.Logger, cfg.Retention.Except = cmp.Or(cfg.Logger, s.log), grants.Stream
			cfg.OnAppend = func(stream string, before, last int64) {
				onAppend(stream, before, last)
				s.metrics.Appended(last - before)
				if also := s.cfg.EventLog.OnAppend; also != nil {
					also(stream, before, last)
				}
			}
			cfg.OnSession = func(id string) {
				onSession(id)
				if also := s.cfg.EventLog.OnSession; also != nil {
					also(id)
				}
			}
			cfg.OnCommit = func(took time.Duration) {
				s.metrics.Committed(took)
				if also := s.cfg.EventLog.OnCommit; also != nil {
					also(took)
				}
			}
			cfg.OnArrival = func(lag time.Duration) {
				s.metrics.Arrived(lag)
				if also := s.cfg.EventLog.OnArrival; also != nil {
					also(lag)
				}
			}
			return eventlog.Open(ctx, cfg)
		},
		Start: func(ctx context.Context, log *eventlog.Log) (*agents.Host, error) {
			cfg := s.cfg.AgentHost
			cfg.Log, cfg.StateDir = log, agentDir(s.fleet.StateDir().Path())
			cfg.Folders, cfg.TrustFolders = s.folders, nil
			cfg.Registry = cmp.Or(cfg.Registry, s.registry)
			cfg.Logger, cfg.Tracer, cfg.OnTurn = cmp.Or(cfg.Logger, s.log), cmp.Or(cfg.Tracer, s.tracer), s.onTurn
			if cfg.Mount == nil {
				cfg.Mount, cfg.FindDesktop = s.desktops.Mount, s.desktops.FindForAgent
			}
			cfg.MinMemory = cmp.Or(cfg.MinMemory, s.cfg.MinMemory)
			cfg.CleanEnv = cfg.CleanEnv || s.cfg.EnvPolicy == desktop.EnvClean
			cfg.Secrets = slices.Concat(cfg.Secrets, s.cfg.Secrets)
			return agents.Start(ctx, cfg)
		},
	})
}

// onTurn counts a turn of an agent.
func (s *Server) onTurn(turn agents.EndedTurn) {
	s.metrics.Turn(turn)
	if also := s.cfg.AgentHost.OnTurn; also != nil {
		also(turn)
	}
}

// OpenAgents opens the log of agents' sessions and completes the work that a killed
// server left unfinished. Without this call, the first request about sessions does so.
// OpenAgents returns ErrInUse if another server uses the state directory.
func (s *Server) OpenAgents(ctx context.Context) error {
	_, err := s.agents.Get(ctx)
	return err
}

// sharedLog returns the function that opens the log of sessions for the tokens that servers
// share, or nil if the log is a file of this server.
func (s *Server) sharedLog() func(context.Context) (*eventlog.Log, error) {
	if !strings.Contains(s.cfg.EventLog.DSN, "://") {
		return nil
	}
	return func(ctx context.Context) (*eventlog.Log, error) {
		host, err := s.agents.Get(ctx)
		if err != nil {
			return nil, err
		}
		return host.Log(), nil
	}
}
