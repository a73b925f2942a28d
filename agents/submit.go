package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// prepare attaches the session that a message names, and adds the configuration to a
// message that makes or opens a session.
func (p *agentProcess) prepare(ctx context.Context, c *call) error {
	id, method := c.env.sessionID(), c.env.method
	opens := method == "session/load" || method == "session/resume"
	if opens || isCreation(method) {
		if err := p.configure(ctx, c); err != nil {
			return err
		}
	}
	if id == "" {
		return nil
	}
	if p.intake.sessions.isOpen(id) {
		c.needsSession = continuesSession(c.env)
		return nil
	}
	row, err := p.host.cfg.Log.Session(ctx, id)
	switch {
	case errors.Is(err, eventlog.ErrNotFound) && opens:
		c.continues, err = p.recordOf(ctx, id)
		return err
	case errors.Is(err, eventlog.ErrNotFound):
		return nil // the agent answers
	case err != nil:
		return err
	case row.State == eventlog.Starting:
		return ErrSessionStarting
	case opens && row.State != eventlog.Failed && row.Native != "":
		return p.prepareOpening(ctx, c, row.ID)
	case !slices.Contains(continuableStates, row.State):
		c.needsSession = continuesSession(c.env) && row.State == eventlog.Ended
	case row.Server == p.server.id:
		c.needsSession = continuesSession(c.env)
		if err := p.restorer.restore(ctx, row.ID); err != nil && !(c.needsSession && errors.Is(err, ErrSessionEnded)) {
			return err
		}
	}
	return nil
}

// recordOf returns the id of the newest session that the agent knows by a name, or
// "" if there is none.
func (p *agentProcess) recordOf(ctx context.Context, native string) (session string, err error) {
	if !recordable(native) {
		return "", nil
	}
	page, _, err := p.host.cfg.Log.Sessions(ctx, eventlog.SessionFilter{Agent: p.agent, Native: native, Newest: true}, "", 1)
	if err != nil || len(page) == 0 {
		return "", err
	}
	return page[0].ID, nil
}

// continuesSession reports whether a request continues a session. Clients may not continue a
// session that has ended, but may open or delete it.
func continuesSession(env *envelope) bool {
	switch env.method {
	case "session/prompt", "session/set_mode", "session/set_model", "session/set_config_option":
		return env.isRequest()
	}
	return false
}

// prepareOpening prepares a message that opens a session. It waits for a restoration
// of the same session.
func (p *agentProcess) prepareOpening(ctx context.Context, c *call, session string) error {
	if err := p.restorer.await(ctx, session); err != nil {
		return err
	}
	if p.intake.sessions.isOpen(session) {
		return nil
	}
	row, err := p.host.cfg.Log.Session(ctx, session)
	c.opens = openingSession(row)
	return err
}

// request makes a request of the host and returns its result.
func (p *agentProcess) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c, err := newInternalCall(method, params)
	if err != nil {
		return nil, err
	}
	raw, err := p.sendInTime(ctx, c)
	if err != nil {
		return nil, err
	}
	return resultOf(method, raw)
}

// sendInTime is like send but returns a [TimeoutError] after the deadline of ctx.
func (p *agentProcess) sendInTime(ctx context.Context, c *call) ([]byte, error) {
	method := c.env.method
	raw, err := p.send(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &TimeoutError{Agent: p.agent, Method: method}
	}
	return raw, err
}

// send submits a call and waits for its end. The call continues after the end of ctx.
func (p *agentProcess) send(ctx context.Context, c *call) ([]byte, error) {
	if err := p.submit(ctx, c); err != nil {
		return nil, err
	}
	raw, err := p.await(ctx, c)
	if err == nil {
		c.result.raw = nil // the caller may keep c for longer than the answer
	}
	return raw, err
}

// submit hands a call to run. It waits while the agent does not read its input and, if the
// process is being ended, for its end.
func (p *agentProcess) submit(ctx context.Context, c *call) (err error) {
	if p.host.capacity.draining.Load() && beginsWork(c.env) {
		return ErrDraining
	}
	ok, err := p.lifecycle.admit()
	if err != nil {
		return err
	}
	if !ok {
		return p.inbox.awaitEnd(ctx)
	}
	c.turn = p.turns.begin(ctx, c.env)
	defer func() {
		if err != nil {
			c.turn.end(reply{err: err}, false)
		}
	}()
	c.weight = p.weight(len(c.env.raw) + len(c.replacement))
	if err := p.outbox.reserve(ctx, p.alive, c.weight); err != nil {
		if p.alive.Err() != nil {
			return p.inbox.awaitEnd(ctx)
		}
		return fmt.Errorf("the agent does not read its input: %w", err)
	}
	refuse := func(err error) {
		p.outbox.room.Release(c.weight)
		c.finish(reply{err: err})
	}
	err = p.inbox.put(ctx, command{refuse: refuse, handle: func(fx *effects) {
		fx.refuse, fx.report = refuse, func(err error) { c.finish(reply{err: err}) }
		p.intake.handleCall(fx, c)
	}})
	if err != nil {
		p.outbox.room.Release(c.weight)
	}
	return err
}

// await waits for the end of a call and returns the answer.
func (p *agentProcess) await(ctx context.Context, c *call) ([]byte, error) {
	if _, err := receive(ctx, p.inbox, c.done); err != nil {
		return nil, err
	}
	return c.result.raw, c.result.err
}

// awaitCommit waits until a call is in the log.
func (p *agentProcess) awaitCommit(ctx context.Context, c *call) error {
	select {
	case <-c.accepted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
	case <-p.inbox.done:
	}
	switch {
	case isClosed(c.accepted):
		return nil
	case isClosed(c.done):
		return c.result.err
	}
	return p.lifecycle.exitError()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
