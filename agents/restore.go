package agents

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// restoration is the opening of a session in a new process.
type restoration struct {
	stop context.CancelCauseFunc
	done chan struct{}
	err  error // set before done is closed
}

// restorer opens sessions again in a new process of their agent. There is one restoration of a
// session at a time, and none of a session that clients can use. Any goroutine may use it.
type restorer struct {
	process *agentProcess

	mu      sync.Mutex              // guards the fields below
	running map[string]*restoration // by session
}

// restore opens a session that is not attached and makes its choices again. Concurrent
// callers wait for the same restoration.
func (r *restorer) restore(ctx context.Context, session string) error {
	one, err := r.begin(session)
	if one == nil {
		return err
	}
	select {
	case <-one.done:
		return one.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await waits for the end of a restoration of a session, if there is one.
func (r *restorer) await(ctx context.Context, session string) error {
	r.mu.Lock()
	one := r.running[session]
	r.mu.Unlock()
	if one == nil {
		return nil
	}
	select {
	case <-one.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop stops the restoration of a session, and waits for its end.
func (r *restorer) stop(ctx context.Context, session string, why error) {
	r.mu.Lock()
	if one := r.running[session]; one != nil {
		one.stop(why)
	}
	r.mu.Unlock()
	_ = r.await(ctx, session)
}

// begin returns the restoration that is under way, or begins one. It returns nil for a
// session that is attached, or must not be opened.
func (r *restorer) begin(session string) (*restoration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.process.host
	switch one := r.running[session]; {
	case r.process.intake.sessions.isOpen(session):
		return nil, nil //nolint:nilnil // there is nothing to restore
	case h.servers.isTerminating(session):
		return nil, ErrSessionEnded
	case one != nil:
		return one, nil
	}
	one := &restoration{done: make(chan struct{})}
	var ctx context.Context
	ctx, one.stop = context.WithCancelCause(h.tasks.ctx)
	err := h.tasks.start(func(always context.Context) {
		if err := r.reopen(ctx, session); err != nil {
			r.process.abandon(always, session)
			if one.err = ErrSessionEnded; !errors.Is(err, one.err) && !errors.Is(context.Cause(ctx), one.err) {
				one.err = &RestoreError{session, err}
			}
		}
		one.stop(nil)
		r.mu.Lock()
		delete(r.running, session)
		r.mu.Unlock()
		close(one.done)
	})
	if err != nil {
		one.stop(nil)
		return nil, err
	}
	r.running[session] = one
	return one, nil
}

// errAbandoned prevents that the edit of abandon changes the row.
var errAbandoned = errors.New("the session is not opened")

// abandon detaches a session that could not be made or restored. The next caller that needs
// the session restores it again.
func (p *agentProcess) abandon(ctx context.Context, session string) {
	err := p.edit(ctx, session, hostEvent{}, func(s *attachedSession) error {
		if !p.intake.sessions.isOpen(session) {
			p.intake.sessions.detach(s)
		}
		return errAbandoned
	})
	if !errors.Is(err, errAbandoned) && !errors.Is(err, ErrSessionNotFound) {
		p.log.Debug("the process of a session that was not restored is over", "session", session, "error", err)
	}
}

// reopen opens a session by the best method that the agent has: one with which the agent
// remembers the session, or else a new session that begins with the history. After a
// timeout it does not try a worse method, with which the agent would forget.
func (r *restorer) reopen(ctx context.Context, session string) error {
	p := r.process
	ctx, cancel := context.WithTimeout(ctx, p.host.cfg.RestoreTimeout)
	defer cancel()
	row, err := p.host.cfg.Log.Session(ctx, session)
	switch {
	case err != nil:
		return err
	case !slices.Contains(continuableStates, row.State):
		return ErrSessionEnded
	}
	if err := p.handshake.await(ctx); err != nil {
		return err
	}
	caps := p.handshake.capabilities()
	params := row.Init
	if len(params) == 0 || params[0] != '{' {
		params = []byte(`{"mcpServers":[]}`)
	}
	if row.Cwd != "" {
		params = setMember(params, "cwd", jsonString(row.Cwd))
	}
	for _, by := range []struct {
		method string
		can    bool
	}{{"session/resume", caps.resume}, {"session/load", caps.load}} {
		if !by.can || row.Native == "" { // the agent never had a fork
			continue
		}
		err := r.reopenBy(ctx, by.method, setMember(params, "sessionId", jsonString(row.Native)), row, "")
		if _, refused := errors.AsType[*ResponseError](err); !refused {
			return err
		}
		p.log.Warn("agent does not open a session again", "session", session, "error", err)
	}
	history, err := historyOf(ctx, p.host.cfg.Log, session)
	if err != nil {
		return err
	}
	return r.reopenBy(ctx, "session/new", params, row, history)
}

// reopenBy opens a session by one method. The agent gets preface with the next prompt.
func (r *restorer) reopenBy(ctx context.Context, method string, params []byte, row eventlog.Session, preface string) error {
	p := r.process
	c, err := newInternalCall(method, params)
	if err != nil {
		return err
	}
	c.opens = openingSession(row)
	c.opens.opening, c.opens.preface = true, preface
	if err := p.configure(ctx, c); err != nil {
		return err
	}
	raw, err := p.send(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &TimeoutError{p.agent, method, p.host.cfg.RestoreTimeout}
	}
	if err != nil {
		c.givenUp.Store(true)
		return err
	}
	read := resultOf
	if isCreation(method) {
		read = createdBy
	}
	result, err := read(method, raw)
	if err != nil {
		return err
	}
	set, err := p.chooseAgain(ctx, row, result)
	if err != nil {
		return err
	}
	for _, problem := range append(c.problems, set.problems...) {
		if err := p.edit(ctx, row.ID, problemEvent(problem), func(*attachedSession) error { return nil }); err != nil {
			return err
		}
	}
	return p.edit(ctx, row.ID, restoredEvent(method, c.replayed), func(s *attachedSession) error {
		s.opening = false
		s.data.Mode, s.data.Model, s.data.Options = set.kept.Mode, set.kept.Model, set.kept.Options
		s.saveData()
		if set.known {
			s.setOptions(s.row.Config, set.now) // the options may have changed
		}
		return nil
	})
}

// problemEvent returns the host event about a part of a session's configuration that does not
// work.
func problemEvent(problem string) hostEvent {
	return newHostEvent("session/problem", struct {
		Message string `json:"message"`
	}{problem})
}

// restoredEvent returns the host event about how a session goes on.
func restoredEvent(method string, replayed int) hostEvent {
	return newHostEvent("session/restored", struct {
		Method   string `json:"method"`
		Replayed int    `json:"replayed"` // updates of before that the agent repeated
	}{method, replayed})
}
