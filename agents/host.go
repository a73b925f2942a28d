package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Host runs agents. Make one with [Start].
type Host struct {
	cfg     Config
	group   *supervise.Group
	groups  *cgroups
	user    supervise.User
	skills  skillStore
	folders *folders.Store

	mu      sync.Mutex // guards what follows
	closed  bool
	servers map[string]*server
	leaving map[string]int // how many terminate a session: nobody opens it meanwhile
	ending  map[string]*ending
	tasks   sync.WaitGroup  // added to only while not closed
	lives   sync.WaitGroup  // their goroutines; added to by tasks only
	ctx     context.Context //nolint:containedctx // of no call: what tasks do, until Close
	cancel  context.CancelFunc

	endGroup func() error // endProcesses, once
}

// Start makes a host. What an earlier one with the same log and StateDir left
// running is ended, and what it did not write down any more is completed: its
// processes have ended, their questions are cancelled, and sessions that were
// in the middle of a turn are interrupted. ctx bounds this alone.
func Start(ctx context.Context, cfg Config) (*Host, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("agent host: %w", err)
	}
	h := &Host{cfg: cfg, servers: map[string]*server{}, leaving: map[string]int{}, ending: map[string]*ending{}}
	if h.folders, err = cfg.folders(); err != nil {
		return nil, fmt.Errorf("agent host: %w", err)
	}
	if h.user, err = supervise.LookupUser(cfg.RunAs); err != nil {
		return nil, fmt.Errorf("agent host: %w", err)
	}
	h.groups = &cgroups{state: cfg.StateDir, own: supervise.OwnCgroup()}
	if err := h.groups.sweep(); err != nil {
		cfg.Logger.Warn("control groups of a killed host", "error", err)
	}
	record := ""
	if cfg.StateDir != "" {
		record = filepath.Join(cfg.StateDir, "processes")
		if _, err := supervise.Sweep(record, cfg.Logger); err != nil {
			return nil, fmt.Errorf("agent host: %w", err)
		}
		// Names of control groups are made from the state directory.
		if err := os.MkdirAll(record, 0o700); err != nil {
			return nil, fmt.Errorf("agent host: %w", err)
		}
	}
	h.skills.patience = refreshWait
	if cfg.StateDir != "" {
		h.skills.dir = filepath.Join(cfg.StateDir, "skills")
	}
	if err := h.recover(ctx); err != nil {
		return nil, fmt.Errorf("agent host: %w", err)
	}
	h.group, err = supervise.NewGroup(supervise.GroupConfig{Dir: record, Owner: "agent", Logger: cfg.Logger, Grace: termWait})
	if err != nil {
		return nil, fmt.Errorf("agent host: %w", err)
	}
	h.endGroup = sync.OnceValue(h.endProcesses)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if cfg.Log.Shared() {
		_ = h.task(h.watch) // it is not closed
	}
	return h, nil
}

// Close ends all agents and waits for that. The next host with the same log
// goes on with their sessions. Later and simultaneous calls wait as well.
//
// While the log takes nothing it waits two seconds more for it. What agents said
// last is lost then, and the next host completes the record. A Postgres that does
// not even refuse counts as gone after half a minute.
func (h *Host) Close() error {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	h.mu.Unlock()
	if first {
		h.cancel()
	}
	h.endAll()
	h.tasks.Wait()
	h.endAll() // what was about to start meanwhile
	h.lives.Wait()
	err := errors.Join(h.endGroup(), h.groups.close(), h.skills.close())
	if h.folders != h.cfg.Folders {
		err = errors.Join(err, h.folders.Close())
	}
	return err
}

// endAll ends all agents concurrently.
func (h *Host) endAll() {
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.endGroup() }) // Close returns its error
	for _, s := range h.all() {
		if l := s.newest(); l != nil {
			wg.Go(func() { l.end(endedServer) })
		}
	}
	wg.Wait()
}

// endProcesses ends the processes of all agents, also of deleted ones. From the
// end of their input, all agents together have eofWait to end without a signal.
func (h *Host) endProcesses() error {
	t := time.NewTimer(eofWait)
	defer t.Stop()
	for _, l := range h.allLives() {
		select {
		case <-l.proc.done:
		case <-t.C:
			return h.group.Close()
		}
	}
	return h.group.Close()
}

// allLives returns the agents that have a process, also the deleted ones.
func (h *Host) allLives() []*life {
	servers := h.all()
	h.mu.Lock()
	for _, e := range h.ending {
		servers = append(servers, e.s)
	}
	h.mu.Unlock()
	var lives []*life
	for _, s := range servers {
		if l := s.newest(); l != nil {
			lives = append(lives, l)
		}
	}
	return lives
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

func (s *server) newest() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

func (h *Host) all() []*server {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*server, 0, len(h.servers))
	for _, s := range h.servers {
		all = append(all, s)
	}
	return all
}

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

// maxServerID bounds the ids that clients choose.
const maxServerID = 512

// find returns the server of that id, or ErrServerNotFound, or an ElsewhereError. One
// that an earlier host ran is known from the log.
func (h *Host) find(ctx context.Context, id string) (*server, error) {
	h.mu.Lock()
	s, ending := h.servers[id], h.ending[id]
	h.mu.Unlock()
	switch {
	case s != nil:
		if err := s.here(ctx); err != nil {
			return nil, err
		}
		return s, nil
	case id == "" || ending != nil: // its record may not say yet that it was deleted
		return nil, ErrServerNotFound
	}
	lives, err := h.cfg.Log.Lives(ctx, eventlog.LifeFilter{Server: id, Latest: true})
	if err != nil {
		return nil, err
	}
	if len(lives) == 0 || lives[0].Reason == endedDeleted {
		return nil, ErrServerNotFound
	}
	last := lives[0]
	if last.ExitedAt.IsZero() {
		running, err := h.elsewhere(ctx, last)
		if err != nil {
			return nil, err
		}
		if running {
			return nil, &ElsewhereError{id}
		}
		last.Reason = endedServer // of a host that is not there any more
	}
	s = &server{host: h, id: id, agent: last.Agent, last: last}
	_ = json.Unmarshal(last.Data, &s.data) // ours
	return h.keep(s), nil
}

// keep makes a server known, unless one of its id is already.
func (h *Host) keep(s *server) *server {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other := h.servers[s.id]; other != nil {
		return other
	}
	h.servers[s.id] = s
	return s
}

// fresh makes a server known that has had no process, unless one of its id is
// already.
func (h *Host) fresh(id string) *server {
	s := &server{host: h, id: id, data: lifeData{Created: time.Now()}}
	h.mu.Lock()
	if e := h.ending[id]; e != nil {
		s.after = e.gone
	}
	h.mu.Unlock()
	return h.keep(s)
}

// Post passes a message to the agent of an ACP server, which is made with its
// first message. For a request it waits for the answer and returns that, an
// error of JSON-RPC too; for a notification and the answer to a question of the
// agent's it returns nil once the message is in the log. What would go on with a
// session that has ended is answered with an error, without the agent.
//
// Before it returns an answer it waits, for 100 ms at most, until those who
// follow the server here have passed it on, as [Stream.Sent] tells: who has the
// answer then has the events before it, too. It does not wait for those who are
// behind, or have stalled, until they have caught up.
//
// The end of ctx ends the wait alone: the request goes on, and its answer is
// among the server's events.
//
// Errors: [EnvelopeError], [ErrNotObject], [ErrAgentNeeded], [ConflictError],
// [StartError], [ExitedError], [TimeoutError], [RestoreError], [ErrClosed],
// [ElsewhereError], those of Config.Launch and those of the log.
func (h *Host) Post(ctx context.Context, id string, o PostOptions, body []byte) ([]byte, error) {
	env, err := parseClient(body)
	if err != nil {
		return nil, &EnvelopeError{err}
	}
	if id == "" || len(id) > maxServerID || cleaned(id) != id {
		return nil, &InvalidError{"serverId", fmt.Sprintf("must be text of 1 to %d bytes", maxServerID)}
	}
	var raw []byte
	err = again(func() error {
		l, err := h.lifeFor(ctx, id, o, env)
		if err == nil {
			raw, err = l.post(ctx, env)
			if env.method == methodInitialize {
				l.greeted()
			}
		}
		return err
	})
	return raw, err
}

// lifeFor returns the life for a message of a client.
func (h *Host) lifeFor(ctx context.Context, id string, o PostOptions, env *envelope) (*life, error) {
	s, err := h.find(ctx, id)
	switch {
	case errors.Is(err, ErrServerNotFound) && o.Agent == "":
		return nil, ErrAgentNeeded
	case errors.Is(err, ErrServerNotFound):
		s = h.fresh(id)
	case err != nil:
		return nil, err
	}
	if !env.object {
		return nil, ErrNotObject
	}
	init := []byte{} // that of before, if there is one
	if env.method == methodInitialize {
		init = nil
	}
	l, err := s.ensure(ctx, o, init)
	if err != nil {
		h.forget(s)
	}
	switch {
	case !errors.Is(err, ErrServerNotFound):
		return l, err
	case o.Agent == "":
		return nil, ErrAgentNeeded
	}
	return nil, errResting // it was just deleted, so the next one of its id is meant
}

// forget drops a server that never had a process.
func (h *Host) forget(s *server) {
	s.mu.Lock()
	never := s.last.ID == "" && s.starting == nil
	s.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if never && h.servers[s.id] == s {
		delete(h.servers, s.id)
	}
}

// drop makes a server unknown, which the log may know.
func (h *Host) drop(s *server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.servers[s.id] == s {
		delete(h.servers, s.id)
	}
}

// post is Post with a life.
func (l *life) post(ctx context.Context, env *envelope) ([]byte, error) {
	c, err := l.prepare(ctx, env)
	if err != nil {
		return nil, err
	}
	if env.isRequest() && env.method != "session/prompt" {
		wait, cancel := context.WithTimeout(ctx, l.host.cfg.RequestTimeout)
		defer cancel()
		raw, err := l.send(wait, c)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = &TimeoutError{l.agent, env.method, l.host.cfg.RequestTimeout}
		}
		l.observe(env.method, raw)
		return l.told(ctx, c, raw, err)
	}
	raw, err := l.send(ctx, c)
	return l.told(ctx, c, raw, err)
}

// told waits until those who follow the server have an answer as well.
func (l *life) told(ctx context.Context, c *call, raw []byte, err error) ([]byte, error) {
	if err == nil { // else somebody may still be writing what c has
		l.s.followers.wait(ctx, c.seq)
	}
	return raw, err
}

// observe passes on what an agent says about itself.
func (l *life) observe(method string, raw []byte) {
	if method != methodInitialize && method != "session/new" || raw == nil {
		return
	}
	if result, err := resultOf(method, raw); err == nil {
		l.host.cfg.Observe(l.agent, method, result)
	}
}

// commit commits for somebody who waits. Without Postgres it fails at once.
func (h *Host) commit(ctx context.Context, f func(*eventlog.Tx) error) error {
	err := h.cfg.Log.TryCommit(ctx, f)
	if doubt, open := errors.AsType[*eventlog.UncertainError](err); open {
		return doubt.Wait(ctx)
	}
	return err
}

// spawn starts a process for a server, after a life that is not always the
// newest one in the log.
func (h *Host) spawn(ctx context.Context, s *server, agent string, before, newest eventlog.Life) (*life, error) {
	// The desktop first: an install takes longer.
	if err := h.lookUp(agent, s.desktopID()); err != nil {
		return nil, err
	}
	mounted, err := h.mount(ctx, s.desktopID(), agent)
	if err != nil {
		return nil, err
	}
	launch, err := h.cfg.Launch(ctx, agent)
	if err != nil {
		return nil, err
	}
	if s.isDeleted() { // while it was installed, for example
		return nil, ErrServerNotFound
	}
	env := environ(h.user, h.cfg.environ(), launch.Env, mounted.Env)
	p, err := h.startProc(agent, launch, env)
	switch {
	case errors.Is(err, supervise.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, &StartError{agent, err}
	}
	l := h.newLife(s, agent, p)
	l.env = env
	l.row = eventlog.Life{
		ID: l.id, Server: s.id, Agent: agent, Version: launch.Version, Instance: h.cfg.Log.Instance(), PID: p.pid,
		Init: before.Init, Data: s.lifeData(),
	}
	if err := l.claim(ctx, newest); err != nil {
		return nil, errors.Join(err, p.end(), p.out.Close())
	}
	s.mu.Lock()
	s.last, s.life = l.row, l
	deleted := s.deleted
	s.mu.Unlock()
	l.start()
	switch {
	case deleted:
		l.end(endedDeleted)
		return nil, ErrServerNotFound
	case h.isClosed():
		l.end(endedServer)
		return nil, ErrClosed
	}
	return l, nil
}

func (h *Host) newLife(s *server, agent string, p *proc) *life {
	id := newLifeID()
	return &life{
		host: h, s: s, id: id, agent: agent, proc: p, log: h.cfg.Logger.With("server", s.id, "life", id),
		items: make(chan item, 256), done: make(chan struct{}), box: outbox{wake: make(chan struct{}, 1)},
		inputs: semaphore.NewWeighted(int64(h.cfg.MaxMessageBytes)), outputs: semaphore.NewWeighted(int64(h.cfg.MaxMessageBytes)),
		pending: map[int64]*call{}, questions: map[string]*question{}, talks: map[string]*talk{}, natives: map[string]*talk{},
		here: map[string]bool{}, restoring: map[string]*restoration{}, active: time.Now(),
	}
}

// taken tells whether the log has a session of that id.
func (h *Host) taken(session string) bool {
	_, err := h.cfg.Log.Session(h.ctx, session)
	return !errors.Is(err, eventlog.ErrNotFound)
}
