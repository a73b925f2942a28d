package agents

import (
	"context"
	"errors"
	"slices"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// restoration is the opening of a session in a new process.
type restoration struct {
	stop context.CancelCauseFunc
	done chan struct{}
	err  error // set before done is closed
}

// restore opens a session that is not attached and makes its choices again. Concurrent
// callers wait for the same restoration.
func (p *agentProcess) restore(ctx context.Context, session string) error {
	r, err := p.beginRestore(session)
	if r == nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginRestore returns the restoration that is under way, or begins one. It returns nil
// for a session that is attached, or must not be opened.
func (p *agentProcess) beginRestore(session string) (*restoration, error) {
	t := &p.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attached[session] {
		return nil, nil //nolint:nilnil // there is nothing to restore
	}
	if p.host.isTerminating(session) {
		return nil, ErrSessionEnded
	}
	if r := t.restoring[session]; r != nil {
		return r, nil
	}
	r := &restoration{done: make(chan struct{})}
	var ctx context.Context
	ctx, r.stop = context.WithCancelCause(p.host.ctx)
	err := p.host.task(func(always context.Context) {
		if err := p.reopen(ctx, session); err != nil {
			p.abandonRestore(always, session)
			if r.err = ErrSessionEnded; !errors.Is(err, r.err) && !errors.Is(context.Cause(ctx), r.err) {
				r.err = &RestoreError{session, err}
			}
		}
		r.stop(nil)
		t.endRestoration(session, r.err)
		close(r.done)
	})
	if err != nil {
		r.stop(nil)
		return nil, err
	}
	t.restoring[session] = r
	return r, nil
}

// errAbandoned prevents that the edit of abandonRestore changes the row.
var errAbandoned = errors.New("the session is not opened")

// abandonRestore detaches a session whose restoration has failed. The next caller that needs
// the session restores it again.
func (p *agentProcess) abandonRestore(ctx context.Context, session string) {
	err := p.edit(ctx, session, note{}, func(s *attachedSession) error {
		if !p.sessions.isOpen(session) {
			p.sessions.detach(s)
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
func (p *agentProcess) reopen(ctx context.Context, session string) error {
	ctx, cancel := context.WithTimeout(ctx, p.host.cfg.RestoreTimeout)
	defer cancel()
	row, err := p.host.cfg.Log.Session(ctx, session)
	switch {
	case err != nil:
		return err
	case !slices.Contains(alive, row.State):
		return ErrSessionEnded
	}
	if err := p.awaitInitialize(ctx); err != nil {
		return err
	}
	caps := p.capabilities()
	params := row.Init
	if len(params) == 0 || params[0] != '{' {
		params = []byte(`{"mcpServers":[]}`)
	}
	if row.Cwd != "" {
		params = setMember(params, "cwd", quote(row.Cwd))
	}
	for _, method := range []string{"session/resume", "session/load"} {
		if method == "session/resume" && !caps.resume || method == "session/load" && !caps.load {
			continue
		}
		err := p.reopenBy(ctx, method, setMember(params, "sessionId", quote(row.Native)), row, "")
		if _, refused := errors.AsType[*ResponseError](err); !refused {
			return err
		}
		p.log.Warn("agent does not open a session again", "session", session, "error", err)
	}
	history, err := p.host.history(ctx, session)
	if err != nil {
		return err
	}
	return p.reopenBy(ctx, "session/new", params, row, history)
}

func (p *agentProcess) reopenBy(ctx context.Context, method string, params []byte, row eventlog.Session, preface string) error {
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

// problemEvent returns the note about a part of a session's configuration that does not
// work.
func problemEvent(problem string) note {
	return note{"session/problem", notification("session/problem", struct {
		Message string `json:"message"`
	}{problem})}
}

// restoredEvent returns the note about how a session goes on.
func restoredEvent(method string, replayed int) note {
	return note{"session/restored", notification("session/restored", struct {
		Method   string `json:"method"`
		Replayed int    `json:"replayed"` // updates of before that the agent repeated
	}{method, replayed})}
}
