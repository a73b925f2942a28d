package agents

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/jsonlines"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Reasons for the end of a process, in eventlog.Process.Reason.
const (
	endedItself  = "exit"                 // the agent exited; a request that names it starts the next process
	endedServer  = "server"               // the host ended it; the next request starts the next process
	endedDeleted = eventlog.ReasonDeleted // a client deleted the server
)

// agentProcess is one process of an agent. It passes every message to and from the agent
// through three stages:
//
//  1. intake (intake.go): a message of a client (intake_client.go) or a line of the agent
//     (intake_agent.go) is validated, its ids are mapped, and its session is attached.
//  2. commit (commit.go): one transaction writes the effects of a batch of messages to the
//     log.
//  3. deliver (deliver.go): messages go to the agent's input and to waiting callers.
//
// One goroutine, run, does all three stages, so messages have the same order in the log as
// for the agent.
type agentProcess struct {
	host   *Host
	server *server
	id     string
	agent  string // server.agent is set later, when a process works
	child  *childProcess
	env    []string // of the child
	log    *slog.Logger

	commands chan command // to run
	box      outbox       // to the agent
	done     chan struct{}

	greeting *call // the initialize of the client that started the process; nil: none

	alive context.Context //nolint:containedctx // of no call: done when the child has ended
	ended func()          // ends alive

	reading     context.Context //nolint:containedctx // of no call: done leftWait after alive
	stopReading func()          // ends reading

	inputs  *semaphore.Weighted // bytes of messages that the agent has not read
	outputs *semaphore.Weighted // bytes of lines that are not committed

	// What run owns.
	backlog           []command // received while the log took nothing
	record            eventlog.Process
	recordDirty       bool
	silenced          bool // nothing is written any more: the log was away at the host's end, or another host has the server
	pending           pendingCalls
	questions         map[string]*question
	warnedOfQuestions bool // that there are too many

	sessions sessionTable

	mu          sync.Mutex // guards what follows
	caps        capabilities
	initialized bool   // the agent has answered initialize
	reason      string // why the process ends; empty: it does not
	logError    error  // why nothing can be committed at the moment
	lost        error  // another host has the server: the error for clients
	exit        *ExitedError
	active      time.Time // when the last message passed
	inFlight    int       // open requests and questions
	keptRunning int       // calls of keepRunning that have not ended
}

// start starts the goroutines of a process whose child runs.
func (p *agentProcess) start() {
	p.host.processes.Go(p.run)
	p.host.processes.Go(p.read)
	p.host.processes.Go(func() { p.box.run(p.child.in, p.done, p.inputs, p.log) })
	p.host.processes.Go(p.watch)
}

// read reads the agent's lines until the end of its output.
func (p *agentProcess) read() {
	defer p.child.out.Close()
	share := &lineShare{p: p}
	lines := jsonlines.NewReader(p.child.out, p.host.cfg.MaxMessageBytes, share)
	for {
		line, long, err := lines.Next()
		next := command{weight: p.weight(len(line)), handle: func(b *commitBatch, fx *effects) {
			if long != nil {
				p.handleOutsized(fx, long)
			} else {
				p.handleLine(b, fx, line)
			}
		}}
		if err != nil {
			// One that closes its output can answer no more.
			if err := p.child.end(); err != nil {
				p.log.Error("agent left processes", "error", err)
			}
			<-p.child.done
			next = command{handle: p.handleExit}
		}
		share.keep(next.weight) // commit releases
		select {
		case p.commands <- next:
		case <-p.done:
			p.releaseOutput(next.weight)
			return
		}
		if err != nil {
			return
		}
	}
}

// watch ends an agent that is idle for too long and, after the end of an agent, the processes
// that it has left.
func (p *agentProcess) watch() {
	var idle <-chan time.Time
	if d := p.host.cfg.IdleTimeout; d > 0 {
		t := time.NewTicker(max(d/4, time.Second))
		defer t.Stop()
		idle = t.C
	}
	for {
		select {
		case <-p.child.done:
			p.ended()
			if err := p.child.end(); err != nil {
				p.log.Error("agent left processes", "error", err)
			}
			select {
			case <-p.done:
			case <-time.After(leftWait): // a process that cannot be killed holds the output
				p.stopReading()
				_ = p.child.out.Close()
				<-p.done
			}
			p.server.forgetProcess(p)
			return
		case <-idle:
			if p.retire() {
				p.end(endedServer)
			}
		}
	}
}

// retire reports whether the process was idle for IdleTimeout. If so, no more messages
// come in.
func (p *agentProcess) retire() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason != "" || p.inFlight+p.keptRunning > 0 || p.server.followers.count() > 0 || time.Since(p.active) <= p.host.cfg.IdleTimeout {
		return false
	}
	p.reason = endedServer
	return true
}

// keepRunning keeps the process from being retired until the returned function is
// called.
func (p *agentProcess) keepRunning() func() {
	p.mu.Lock()
	p.keptRunning++
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		p.keptRunning--
		p.active = time.Now()
		p.mu.Unlock()
	}
}

// spawn starts a process for a server. before is the record of the server's process
// before it, newest the newest record in the log.
func (h *Host) spawn(ctx context.Context, s *server, agent string, before, newest eventlog.Process) (_ *agentProcess, err error) {
	alive, ended := context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			ended()
		}
	}()
	// The desktop first: an install takes longer.
	if err := h.lookUp(agent, s.desktopID()); err != nil {
		return nil, err
	}
	mounted, err := h.mount(ctx, alive, s.desktopID(), agent)
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
	child, err := h.startChild(agent, launch, env)
	switch {
	case errors.Is(err, supervise.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, &StartError{agent, err}
	}
	p := h.newProcess(s, agent, child)
	p.env, p.alive, p.ended = env, alive, ended
	p.record = eventlog.Process{
		ID: p.id, Server: s.id, Agent: agent, Version: launch.Version, Instance: h.cfg.Log.Instance(), PID: child.pid,
		Init: before.Init, Data: s.encodeData(nil),
	}
	if err := p.claim(ctx, newest); err != nil {
		return nil, errors.Join(err, child.end(), child.out.Close())
	}
	s.mu.Lock()
	s.last, s.process = p.record, p
	deleted := s.deleted
	s.mu.Unlock()
	p.start()
	switch {
	case deleted:
		p.end(endedDeleted)
		return nil, ErrServerNotFound
	case h.isClosed():
		p.end(endedServer)
		return nil, ErrClosed
	}
	return p, nil
}

func (h *Host) newProcess(s *server, agent string, p *childProcess) *agentProcess {
	id := newProcessID()
	reading, stopReading := context.WithCancel(context.Background())
	return &agentProcess{
		reading: reading, stopReading: stopReading, host: h, server: s, id: id, agent: agent, child: p, log: h.cfg.Logger.With("server", s.id, "life", id),
		commands: make(chan command, 256), done: make(chan struct{}), box: outbox{wake: make(chan struct{}, 1)},
		inputs: semaphore.NewWeighted(int64(h.cfg.MaxMessageBytes)), outputs: semaphore.NewWeighted(int64(h.cfg.MaxMessageBytes)),
		pending: pendingCalls{byID: map[int64]*call{}}, questions: map[string]*question{}, sessions: newSessionTable(), active: time.Now(),
	}
}

func newProcessID() string { return "life_" + strings.ToLower(rand.Text()) }

// claim records a process as its server's, unless the newest record has changed. Of
// several hosts that do so concurrently, one succeeds.
func (p *agentProcess) claim(ctx context.Context, newest eventlog.Process) error {
	row := p.record
	err := p.host.commit(ctx, func(tx *eventlog.Tx) (err error) {
		// Until the end of the transaction the others wait here.
		now, err := tx.NewestProcess(published(row.Server), row.Server)
		if err != nil && !errors.Is(err, eventlog.ErrNotFound) {
			return err
		}
		if row.Base, err = tx.Last(published(row.Server)); err != nil {
			return err
		}
		if now.ID != newest.ID || now.Reason != newest.Reason {
			return errOvertaken
		}
		row, err = tx.StartProcess(row)
		return err
	})
	if err == nil {
		p.record = row
	}
	return err
}

// run passes messages through the three stages until the agent's end is in the log.
func (p *agentProcess) run() {
	defer p.release()
	for {
		b := p.intake()
		p.commit(b)
		p.deliver(b)
		if b.exit {
			return
		}
	}
}
