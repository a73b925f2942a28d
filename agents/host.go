package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/internal/skills"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Host runs agents. Make one with [Start].
type Host struct {
	cfg      Config
	launcher *launcher
	skills   *skills.Store
	folders  *folders.Store
	recovery *recovery
	servers  *serverTable
	tasks    *taskGroup
	medium   *semaphore.Weighted // bytes of medium lines of all agents, from lineShare.keep to their commit
	large    *semaphore.Weighted // bytes of large lines of all agents, from lineShare.Take to their commit
	lineTime time.Duration       // maxLineTime, except in tests

	capacity  capacity
	questions atomic.Int64 // bytes of the open questions of all agents

	processes sync.WaitGroup // goroutines of processes; added to by tasks only
}

// Start makes a host. It ends processes that an earlier host with the same log and StateDir
// has left, and completes that host's records: its processes have ended, their questions
// are cancelled, and sessions that were in a turn are interrupted. ctx bounds the call only.
//
// Errors: [InvalidError], errors of the log, and errors of the system, for example if the
// user Config.RunAs does not exist.
func Start(ctx context.Context, cfg Config) (_ *Host, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("agent host: %w", err)
		}
	}()
	if cfg, err = cfg.withDefaults(); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, folders: cfg.Folders, servers: newServerTable(), tasks: newTaskGroup()}
	h.capacity.maxAgents, h.capacity.minMemory = cfg.MaxAgents, cfg.MinMemory
	h.medium = semaphore.NewWeighted(maxMedium)
	h.large, h.lineTime = semaphore.NewWeighted(int64(max(maxLarge, cfg.MaxMessageBytes))), maxLineTime
	if h.folders == nil {
		if h.folders, err = folders.Open(folders.Config{StateDir: cfg.StateDir, Trust: cfg.TrustFolders, RunAs: cfg.RunAs}); err != nil {
			return nil, err
		}
	}
	user, err := supervise.LookupUser(cfg.RunAs)
	if err != nil {
		return nil, err
	}
	groups := supervise.NewCgroups(cfg.StateDir)
	if err := groups.Sweep(); err != nil {
		cfg.Logger.Warn("control groups of a killed host", "error", err)
	}
	record, copies := "", ""
	if cfg.StateDir != "" {
		record, copies = filepath.Join(cfg.StateDir, "processes"), filepath.Join(cfg.StateDir, "skills")
		if _, err := supervise.Sweep(record, cfg.Logger); err != nil {
			return nil, err
		}
		// Names of control groups are made from the state directory.
		if err := os.MkdirAll(record, 0o700); err != nil {
			return nil, err
		}
	}
	h.recovery = &recovery{cfg: cfg, servers: h.servers, unseen: map[string]time.Time{}}
	if err := h.recovery.start(ctx); err != nil {
		return nil, err
	}
	group, err := supervise.NewGroup(supervise.GroupConfig{Dir: record, Owner: "agent", Logger: cfg.Logger, Grace: termWait})
	if err != nil {
		return nil, err
	}
	h.launcher = &launcher{cfg: cfg, user: user, group: group, groups: groups, closed: h.tasks.isClosed}
	h.launcher.endAll = sync.OnceValue(func() error { return h.launcher.endAfterInput(h.servers.processes()) })
	h.skills = skills.New(skills.Config{
		Dir: copies, Folders: h.folders, Age: cfg.SkillsAge, User: user, Group: group, Environ: cfg.environ, Go: h.tasks.start,
	})
	if cfg.Log.Shared() {
		_ = h.tasks.start(h.recovery.watch) // the host is not closed
	}
	return h, nil
}

// Close ends all agents and waits for their end. The next host with the same log can
// continue their sessions. Later and concurrent calls wait as well.
//
// If the log returns errors, Close waits two seconds for it. Then the last messages of agents
// are lost, and the next host completes the records. A Postgres that does not answer counts
// as gone after half a minute.
func (h *Host) Close() error {
	h.tasks.close()
	h.endAll()
	h.tasks.running.Wait()
	h.endAll() // agents that were being started
	h.processes.Wait()
	err := errors.Join(h.launcher.endAll(), h.launcher.groups.Close(), h.skills.Close())
	if h.folders != h.cfg.Folders {
		err = errors.Join(err, h.folders.Close())
	}
	return err
}

func (h *Host) endAll() {
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.launcher.endAll() }) // Close returns its error
	for _, p := range h.servers.processes() {
		wg.Go(func() { p.end(endedServer) })
	}
	wg.Wait()
}

// Folders returns the store of the configuration of sessions' folders.
func (h *Host) Folders() *folders.Store { return h.folders }

// maxServerID bounds the ids of servers.
const maxServerID = 512

// find returns the server of that id, or ErrServerNotFound, or an ElsewhereError. The
// log has the servers of earlier hosts.
func (h *Host) find(ctx context.Context, id string) (*server, error) {
	s, ending := h.servers.get(id)
	switch {
	case s != nil:
		if err := s.checkHere(ctx); err != nil {
			return nil, err
		}
		return s, nil
	case id == "" || ending != nil: // its record may not say yet that it was deleted
		return nil, ErrServerNotFound
	}
	processes, err := h.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Server: id, Latest: true})
	if err != nil {
		return nil, err
	}
	if len(processes) == 0 || processes[0].Reason == endedDeleted {
		return nil, ErrServerNotFound
	}
	last := processes[0]
	if last.ExitedAt.IsZero() {
		if err := h.recovery.checkElsewhere(ctx, last); err != nil {
			return nil, err
		}
		last.Reason = endedServer // with its host
	}
	s = &server{host: h, id: id, agent: last.Agent, last: last, data: dataOf(last)}
	return h.servers.add(s), nil
}

func (h *Host) hasSession(session string) bool {
	_, err := h.cfg.Log.Session(h.tasks.ctx, session)
	return !errors.Is(err, eventlog.ErrNotFound)
}

// taskGroup runs functions until a host is closed. After close none begins, and the context of
// those that run is done.
type taskGroup struct {
	ctx    context.Context //nolint:containedctx // of no call: until close
	cancel context.CancelFunc

	mu      sync.Mutex // guards the fields below
	closed  bool
	running sync.WaitGroup // added to only while not closed
}

func newTaskGroup() *taskGroup {
	ctx, cancel := context.WithCancel(context.Background())
	return &taskGroup{ctx: ctx, cancel: cancel}
}

// start runs f in a goroutine, or returns ErrClosed.
func (g *taskGroup) start(f func(context.Context)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	g.running.Go(func() { f(g.ctx) })
	return nil
}

func (g *taskGroup) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

func (g *taskGroup) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.cancel()
}
