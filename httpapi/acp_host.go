package httpapi

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/agents/universal"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// agentHost is what runs agents. It is started when it is first needed, since
// it keeps files in the state directory.
type agentHost struct {
	cfg      Config
	stateDir *fleet.StateDir
	folders  *folders.Store
	registry *registry.Registry
	mount    func(ctx, process context.Context, desktop, agent string) (agents.Mount, error) // nil: none
	find     func(desktop string) error                                                      // before that
	waiting  sync.WaitGroup                                                                  // calls of Post

	projector atomic.Pointer[universal.Projector] // of the log; nil: the log is not open

	mu     sync.Mutex // guards what follows
	host   *agents.Host
	log    *eventlog.Log
	closed bool
}

// agentDir is where, in a state directory, everything about agents is.
func agentDir(state string) string { return filepath.Join(state, "agents") }

// agentProcesses is where it is recorded what to end should the server be
// killed.
func agentProcesses(state string) string { return filepath.Join(agentDir(state), "processes") }

// get returns the host.
func (a *agentHost) get(ctx context.Context) (*agents.Host, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, rest.ShuttingDown.Problem("the server is shutting down")
	case a.host != nil:
		return a.host, nil
	}
	state, err := a.stateDir.Claim()
	if err != nil {
		return nil, err
	}
	dir := agentDir(state)
	logConfig := a.cfg.EventLog
	logConfig.DSN = cmp.Or(logConfig.DSN, filepath.Join(dir, "events.db"))
	if logConfig.Logger == nil {
		logConfig.Logger = a.cfg.Logger
	}
	logConfig.Grown = a.onAppend
	log, err := eventlog.Open(ctx, logConfig)
	if err != nil {
		return nil, err
	}
	cfg := a.cfg.AgentHost
	cfg.Log, cfg.StateDir = log, dir
	cfg.Folders, cfg.TrustFolders = a.folders, nil
	if cfg.Registry == nil {
		cfg.Registry = a.registry
	}
	if cfg.Logger == nil {
		cfg.Logger = a.cfg.Logger
	}
	if cfg.Mount == nil {
		cfg.Mount, cfg.FindDesktop = a.mount, a.find
	}
	cfg.CleanEnv = cfg.CleanEnv || a.cfg.EnvPolicy == desktop.EnvClean
	cfg.Secrets = append(slices.Clone(cfg.Secrets), a.cfg.Secrets...)
	host, err := agents.Start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	a.host, a.log = host, log
	a.projector.Store(universal.NewProjector(log))
	return host, nil
}

// onAppend is eventlog.Config.Grown.
func (a *agentHost) onAppend(stream string, before, last int64) {
	if p := a.projector.Load(); p != nil {
		p.OnAppend(stream, before, last)
	}
	if also := a.cfg.EventLog.Grown; also != nil {
		also(stream, before, last)
	}
}

// started returns the host if there is one.
func (a *agentHost) started() *agents.Host {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.host
}

// close ends all agents.
func (a *agentHost) close() error {
	a.mu.Lock()
	a.closed = true
	host, log := a.host, a.log
	a.mu.Unlock()
	if host == nil {
		return nil
	}
	a.projector.Load().Close()
	err := host.Close()
	a.waiting.Wait()
	return errors.Join(err, log.Close())
}

// OpenAgents opens the log of agents' sessions now, rather than with the first
// request about them: for who wants to know at once whether that works, and to
// have what a killed server left behind completed.
func (s *Server) OpenAgents(ctx context.Context) error {
	_, err := s.agents.get(ctx)
	return err
}

// serversOf is Server.agentServers.
func (a *agentHost) serversOf(ctx context.Context) map[string]agents.AgentStatus {
	host := a.started()
	if host == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rest.ReadTime)
	defer cancel()
	all, err := host.Agents(ctx)
	if err != nil {
		a.cfg.Logger.Warn("agents are listed without their servers", "error", err)
	}
	return all
}
