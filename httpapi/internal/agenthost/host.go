package agenthost

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/universal"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// BypassModes has, by agent, the mode in which the agent asks for no permission.
var BypassModes = map[string]string{"claude": "bypassPermissions", "codex": "full-access", "amp": "bypass"}

// Config configures a Host.
type Config struct {
	// Open opens the log of agents' sessions. The log reports its growth to onAppend, and changes
	// of sessions to onSession.
	Open func(ctx context.Context, onAppend func(stream string, before, last int64), onSession func(id string)) (*eventlog.Log, error)

	// Start starts the host with the log.
	Start func(context.Context, *eventlog.Log) (*agents.Host, error)

	// Folder returns the folder of sessions that name none.
	Folder func() (string, error)

	Logger *slog.Logger
}

// Host is the host of agents. It starts when it is first needed, because it keeps files in
// the state directory.
type Host struct {
	cfg       Config
	projector atomic.Pointer[universal.Projector] // of the log; nil: the log is not open
	calls     sync.WaitGroup                      // of Go
	watches   watches

	mu     sync.Mutex // guards the fields below
	host   *agents.Host
	closed bool
}

// New returns a Host that has not started.
func New(cfg Config) *Host { return &Host{cfg: cfg} }

// Folder returns the folder of sessions that name none.
func (h *Host) Folder() (string, error) { return h.cfg.Folder() }

// Get returns the host, and starts it if need be.
func (h *Host) Get(ctx context.Context) (*agents.Host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, rest.Closing()
	case h.host != nil:
		return h.host, nil
	}
	log, err := h.cfg.Open(ctx, h.onAppend, h.onSession)
	if err != nil {
		return nil, err
	}
	host, err := h.cfg.Start(ctx, log)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	h.host = host
	h.projector.Store(universal.NewProjector(log))
	return host, nil
}

// onAppend is eventlog.Config.OnAppend.
func (h *Host) onAppend(stream string, before, last int64) {
	if p := h.projector.Load(); p != nil {
		p.OnAppend(stream, before, last)
	}
	h.watches.onGrowth(stream, before)
}

// Events returns the events of a session. The host must have started.
func (h *Host) Events(session string) *universal.Projection {
	return h.projector.Load().Session(session)
}

// Using returns the names of the agents whose process has a desktop's tools. It does not
// start the host.
func (h *Host) Using(ctx context.Context, desktop string) []string {
	host := h.Started()
	if host == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rest.ReadTime)
	defer cancel()
	all, err := host.Servers(ctx)
	if err != nil {
		h.cfg.Logger.Debug("list agents of a desktop", "error", err)
	}
	var names []string
	for _, one := range all {
		if one.Running && one.Desktop == desktop {
			names = append(names, one.Agent)
		}
	}
	return names
}

// Started returns the host, or nil if it has not started.
func (h *Host) Started() *agents.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host
}

// CanStart returns an error unless another agent may start now. It does not start the host.
func (h *Host) CanStart() error {
	if host := h.Started(); host != nil {
		return host.CanStart()
	}
	return nil
}

// Servers returns the status of the servers of each agent that has servers. It does not
// start the host.
func (h *Host) Servers(ctx context.Context) map[string]agents.AgentStatus {
	host := h.Started()
	if host == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rest.ReadTime)
	defer cancel()
	all, err := host.Agents(ctx)
	if err != nil {
		h.cfg.Logger.Warn("agents are listed without their servers", "error", err)
	}
	return all
}

// Go runs a call of the host in a goroutine, so that it continues when the client
// disconnects. Close ends the call and waits for it.
func (h *Host) Go(call func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return rest.Closing()
	}
	h.calls.Go(call)
	return nil
}

// Close ends all agents.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	host := h.host
	h.mu.Unlock()
	if host == nil {
		return nil
	}
	h.projector.Load().Close()
	log := host.Log()
	err := host.Close()
	h.calls.Wait()
	return errors.Join(err, log.Close())
}
