package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Host runs agents. Make one with [Start].
type Host struct {
	cfg      Config
	group    *supervise.Group
	groups   *cgroups
	user     supervise.User
	skills   skillStore
	folders  *folders.Store
	large    *semaphore.Weighted // bytes of large lines of all agents, from lineShare.Take to their commit
	lineTime time.Duration       // maxLineTime, except in tests

	mu        sync.Mutex // guards what follows
	closed    bool
	servers   map[string]*server
	leaving   map[string]int     // the number of callers that terminate a session: no process opens it
	ending    map[string]*ending // by the id of the server
	tasks     sync.WaitGroup     // added to only while not closed
	processes sync.WaitGroup     // goroutines of processes; added to by tasks only
	ctx       context.Context    //nolint:containedctx // of no call: of tasks, until Close
	cancel    context.CancelFunc

	endGroup func() error // endProcesses, once
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
	h := &Host{cfg: cfg, folders: cfg.Folders, servers: map[string]*server{}, leaving: map[string]int{}, ending: map[string]*ending{}}
	h.large, h.lineTime = semaphore.NewWeighted(int64(max(maxLarge, cfg.MaxMessageBytes))), maxLineTime
	if h.folders == nil {
		if h.folders, err = folders.Open(folders.Config{StateDir: cfg.StateDir, Trust: cfg.TrustFolders, RunAs: cfg.RunAs}); err != nil {
			return nil, err
		}
	}
	if h.user, err = supervise.LookupUser(cfg.RunAs); err != nil {
		return nil, err
	}
	h.groups = &cgroups{state: cfg.StateDir, own: supervise.OwnCgroup()}
	if err := h.groups.sweep(); err != nil {
		cfg.Logger.Warn("control groups of a killed host", "error", err)
	}
	record := ""
	if cfg.StateDir != "" {
		record = filepath.Join(cfg.StateDir, "processes")
		if _, err := supervise.Sweep(record, cfg.Logger); err != nil {
			return nil, err
		}
		// Names of control groups are made from the state directory.
		if err := os.MkdirAll(record, 0o700); err != nil {
			return nil, err
		}
		h.skills.dir = filepath.Join(cfg.StateDir, "skills")
	}
	h.skills.patience = refreshWait
	if err := h.recover(ctx); err != nil {
		return nil, err
	}
	h.group, err = supervise.NewGroup(supervise.GroupConfig{Dir: record, Owner: "agent", Logger: cfg.Logger, Grace: termWait})
	if err != nil {
		return nil, err
	}
	h.endGroup = sync.OnceValue(h.endProcesses)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if cfg.Log.Shared() {
		_ = h.task(h.watch) // the host is not closed
	}
	return h, nil
}

// Close ends all agents and waits for their end. The next host with the same log can
// continue their sessions. Later and concurrent calls wait as well.
//
// If the log takes nothing, Close waits two seconds for it. Then the last messages of agents
// are lost, and the next host completes the records. A Postgres that does not answer counts
// as gone after half a minute.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.endAll()
	h.tasks.Wait()
	h.endAll() // agents that were being started
	h.processes.Wait()
	err := errors.Join(h.endGroup(), h.groups.close(), h.skills.close())
	if h.folders != h.cfg.Folders {
		err = errors.Join(err, h.folders.Close())
	}
	return err
}

func (h *Host) endAll() {
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.endGroup() }) // Close returns its error
	for _, s := range h.allServers() {
		if p := s.newestProcess(); p != nil {
			wg.Go(func() { p.end(endedServer) })
		}
	}
	wg.Wait()
}

// endProcesses ends the processes of all agents, also of deleted servers. From the end of
// their input, all agents together have eofWait to end without a signal.
func (h *Host) endProcesses() error {
	t := time.NewTimer(eofWait)
	defer t.Stop()
	for _, p := range h.allProcesses() {
		select {
		case <-p.child.done:
		case <-t.C:
			return h.group.Close()
		}
	}
	return h.group.Close()
}

// allProcesses returns the processes of all servers, also of deleted ones.
func (h *Host) allProcesses() []*agentProcess {
	servers := h.allServers()
	h.mu.Lock()
	for _, e := range h.ending {
		servers = append(servers, e.s)
	}
	h.mu.Unlock()
	var processes []*agentProcess
	for _, s := range servers {
		if p := s.newestProcess(); p != nil {
			processes = append(processes, p)
		}
	}
	return processes
}

// stop ends an agent's process and its descendants. While the host closes, all
// agents end together, because one search reads all processes of the machine.
func (h *Host) stop(ctx context.Context, c *supervise.Child) error {
	if h.isClosed() {
		_ = h.endGroup() // Close returns its error
		return nil
	}
	return c.Stop(ctx)
}

func (s *server) newestProcess() *agentProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (h *Host) allServers() []*server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.servers))
}

// Folders returns the store of the configuration of sessions' folders.
func (h *Host) Folders() *folders.Store { return h.folders }

func (h *Host) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// task runs f in a goroutine that Close waits for, with a context that Close
// ends.
func (h *Host) task(f func(context.Context)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.tasks.Go(func() { f(h.ctx) })
	return nil
}

// maxServerID bounds the ids of servers.
const maxServerID = 512

// find returns the server of that id, or ErrServerNotFound, or an ElsewhereError. The
// log has the servers of earlier hosts.
func (h *Host) find(ctx context.Context, id string) (*server, error) {
	h.mu.Lock()
	s, ending := h.servers[id], h.ending[id]
	h.mu.Unlock()
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
		if err := h.checkElsewhere(ctx, last); err != nil {
			return nil, err
		}
		last.Reason = endedServer // with its host
	}
	s = &server{host: h, id: id, agent: last.Agent, last: last}
	_ = json.Unmarshal(last.Data, &s.data) // ours
	return h.keep(s), nil
}

// keep adds a server, or returns the one that has its id already.
func (h *Host) keep(s *server) *server {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other := h.servers[s.id]; other != nil {
		return other
	}
	h.servers[s.id] = s
	return s
}

// fresh adds a server that has had no process, or returns the one that has its id
// already.
func (h *Host) fresh(id string) *server {
	s := &server{host: h, id: id, data: processData{Created: time.Now()}}
	h.mu.Lock()
	if e := h.ending[id]; e != nil {
		s.after = e.gone
	}
	h.mu.Unlock()
	return h.keep(s)
}

// forget removes a server that never had a process.
func (h *Host) forget(s *server) {
	s.mu.Lock()
	never := s.last.ID == "" && s.starting == nil
	s.mu.Unlock()
	if never {
		h.drop(s)
	}
}

// drop removes a server. The log may still have it.
func (h *Host) drop(s *server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.servers[s.id] == s {
		delete(h.servers, s.id)
	}
}

func (h *Host) hasSession(session string) bool {
	_, err := h.cfg.Log.Session(h.ctx, session)
	return !errors.Is(err, eventlog.ErrNotFound)
}
