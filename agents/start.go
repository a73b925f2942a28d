package agents

import (
	"cmp"
	"context"
	"errors"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/supervise"
)

// ensureProcess returns the process of the server and starts one if that is allowed. A new
// process gets c as its first message if that is an initialize. Otherwise it gets the
// initialize of the process before, or one with the params init, if they are not empty.
func (s *server) ensureProcess(ctx context.Context, o PostOptions, init []byte, c *call) (*agentProcess, error) {
	p, st, err := s.startOrJoin(o, init, c)
	if p != nil || err != nil {
		return p, err
	}
	select {
	case <-st.done:
		return st.process, st.err // the process may have ended
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// starting is the start of a process. Concurrent callers wait for the same one.
type starting struct {
	done    chan struct{}
	process *agentProcess // set before done is closed
	err     error         // set before done is closed
}

// startOrJoin returns the running process, or the start for which the caller has to wait.
func (s *server) startOrJoin(o PostOptions, init []byte, c *call) (*agentProcess, *starting, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := s.runningProcessLocked(); {
	case s.deleted:
		return nil, nil, ErrServerNotFound
	case o.Agent != "" && s.agent != "" && o.Agent != s.agent:
		return nil, nil, &ConflictError{s.id, s.agent, o.Agent}
	case s.starting != nil:
		return nil, s.starting, nil
	case p != nil:
		return p, nil, nil
	case o.Agent == "" && s.last.ID == "":
		return nil, nil, ErrAgentNeeded
	case o.Agent == "" && s.last.Reason == endedItself:
		return nil, nil, &ExitedError{Agent: s.last.Agent, Code: s.last.ExitCode, Stderr: string(s.last.Stderr)}
	}
	st := &starting{done: make(chan struct{})}
	agent := cmp.Or(o.Agent, s.agent)
	s.data.Desktop = cmp.Or(o.Desktop, s.data.Desktop, s.host.cfg.Desktop)
	err := s.host.tasks.start(func(ctx context.Context) {
		st.process, st.err = s.startProcess(ctx, agent, init, c)
		s.mu.Lock()
		if s.starting = nil; st.err == nil {
			s.agent = agent
		}
		s.mu.Unlock()
		close(st.done)
	})
	if err == nil {
		s.starting = st
	}
	return nil, st, err
}

// startProcess starts a process and initializes it.
func (s *server) startProcess(ctx context.Context, agent string, init []byte, c *call) (*agentProcess, error) {
	// The events of the process before come first.
	if old := s.newestProcess(); old != nil {
		<-old.inbox.done
	}
	if s.after != nil {
		select {
		case <-s.after:
		case <-ctx.Done():
			return nil, ErrClosed
		}
	}
	before, newest, err := s.newestRecord(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.spawn(ctx, agent, before, newest) // which may install the agent first
	if errors.Is(err, errOvertaken) {
		return s.startProcess(ctx, agent, init, c)
	}
	if err != nil {
		return nil, err
	}
	if c != nil && c.env.method == methodInitialize {
		p.handshake.first, c.submitted = c.done, true
		return p, p.submit(ctx, c)
	}
	if len(before.Init) > 0 {
		init = before.Init
	}
	if len(init) == 0 {
		return p, nil
	}
	if err := p.handshake.send(ctx, init); err != nil {
		p.end(endedServer)
		return nil, err
	}
	return p, nil
}

// spawn starts a process. before is the record of the server's process before it, newest the
// newest record in the log.
func (s *server) spawn(ctx context.Context, agent string, before, newest eventlog.Process) (_ *agentProcess, err error) {
	h, data := s.host, s.info()
	turns := &turnSpans{tracer: h.cfg.Tracer, agent: agent, onEnd: h.cfg.OnTurn}
	alive, ended := context.WithCancel(context.WithValue(context.Background(), turnSpansKey{}, turns))
	defer func() {
		if err != nil {
			ended()
		}
	}()
	if err := h.capacity.add(alive); err != nil {
		return nil, err
	}
	// The desktop first: an install takes longer.
	if err := h.launcher.lookUp(agent, data.Desktop); err != nil {
		return nil, err
	}
	mounted, err := h.launcher.mount(ctx, alive, data.Desktop, agent)
	if err != nil {
		return nil, err
	}
	launch, err := h.cfg.Launch(ctx, agent)
	if err != nil {
		return nil, err
	}
	if s.isDeleted() { // for example while it was installed
		return nil, ErrServerNotFound
	}
	env, err := h.launcher.environ(launch.Env, mounted.Env)
	if err != nil {
		return nil, &StartError{agent, err}
	}
	child, err := h.launcher.start(agent, launch, env)
	switch {
	case errors.Is(err, supervise.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, &StartError{agent, err}
	}
	p := s.newProcess(child, turns, eventlog.Process{
		Server: s.id, Agent: agent, Version: launch.Version, Instance: h.cfg.Log.Instance(), PID: child.pid,
		Init: before.Init, Data: s.encodeData(nil),
	})
	p.env, p.alive, p.ended = env, alive, ended
	if err := p.claim(ctx, newest); err != nil {
		return nil, errors.Join(err, child.end(), child.out.Close())
	}
	s.mu.Lock()
	s.last, s.process = p.committer.record.Process, p
	deleted := s.deleted
	s.mu.Unlock()
	p.start()
	switch {
	case deleted:
		p.end(endedDeleted)
		return nil, ErrServerNotFound
	case h.tasks.isClosed():
		p.end(endedServer)
		return nil, ErrClosed
	}
	return p, nil
}

// claim records a process as its server's, unless the newest record has changed. Of several
// hosts that do so concurrently, one succeeds. The others get errOvertaken.
func (p *agentProcess) claim(ctx context.Context, newest eventlog.Process) error {
	row := p.committer.record.Process
	err := commitNow(ctx, p.host.cfg.Log, func(tx *eventlog.Tx) (err error) {
		// Until the end of the transaction, other hosts that claim the server wait here.
		now, err := tx.NewestProcess(serverStream(row.Server), row.Server)
		if err != nil && !errors.Is(err, eventlog.ErrNotFound) {
			return err
		}
		if row.Base, err = tx.Last(serverStream(row.Server)); err != nil {
			return err
		}
		if now.ID != newest.ID || now.Reason != newest.Reason {
			return errOvertaken
		}
		row, err = tx.StartProcess(row)
		return err
	})
	if err == nil {
		p.committer.record.Process = row
	}
	return err
}

// errOvertaken reports that another host with the same log has changed the server
// concurrently.
var errOvertaken = errors.New("another host has changed the server")
