package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

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
	if p.sessions.isOpen(id) {
		c.goesOn = goesOn(c.env)
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
	case !slices.Contains(alive, row.State):
		c.goesOn = goesOn(c.env) && row.State == eventlog.Ended
	case row.Server == p.server.id:
		c.goesOn = goesOn(c.env)
		if err := p.restore(ctx, row.ID); err != nil && !(c.goesOn && errors.Is(err, ErrSessionEnded)) {
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

// goesOn reports whether a request continues a session. Clients may not continue a
// session that has ended, but may open or delete it.
func goesOn(env *envelope) bool {
	switch env.method {
	case "session/prompt", "session/set_mode", "session/set_model", "session/set_config_option":
		return env.isRequest()
	}
	return false
}

// prepareOpening prepares a message that opens a session. It waits for a restoration
// of the same session.
func (p *agentProcess) prepareOpening(ctx context.Context, c *call, session string) error {
	if r := p.sessions.restoration(session); r != nil {
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.sessions.isOpen(session) {
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
	raw, err := p.send(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &TimeoutError{Agent: p.agent, Method: method}
	}
	if err != nil {
		return nil, err
	}
	return resultOf(method, raw)
}

// send submits a call and waits for its end. The call continues after the end of ctx.
func (p *agentProcess) send(ctx context.Context, c *call) ([]byte, error) {
	if err := p.submit(ctx, c); err != nil {
		return nil, err
	}
	return p.await(ctx, c)
}

// submit hands a call to run. It waits while the agent does not read its input.
func (p *agentProcess) submit(ctx context.Context, c *call) error {
	if err := p.checkOpen(ctx); err != nil {
		return err
	}
	c.weight = p.weight(len(c.env.raw) + len(c.edits))
	if err := p.reserve(ctx, c.weight); err != nil {
		return err
	}
	refuse := func(err error) {
		p.inputs.Release(c.weight)
		c.finish(reply{err: err})
	}
	handle := func(b *commitBatch, fx *effects) {
		fx.refuse, fx.report = refuse, func(err error) { c.finish(reply{err: err}) }
		switch {
		case c.env.isResponse():
			p.handleAnswer(b, fx, c)
		case c.env.isRequest():
			p.handleRequest(b, fx, c)
		default:
			p.handleNotification(b, fx, c)
		}
	}
	err := p.enqueue(ctx, command{handle: handle, refuse: refuse})
	if err != nil {
		p.inputs.Release(c.weight)
	}
	return err
}

// checkOpen returns an error if the process takes no messages. While the process is
// being ended it waits for its end.
func (p *agentProcess) checkOpen(ctx context.Context) error {
	p.mu.Lock()
	logError, ends := p.logError, p.reason != ""
	if !ends {
		p.active = time.Now() // so that it is not retired before the message is in the log
	}
	p.mu.Unlock()
	switch {
	case logError != nil:
		return logError
	case !ends:
		return nil
	}
	return p.awaitEnd(ctx)
}

// awaitEnd waits for the end of the process and returns the error for its callers.
func (p *agentProcess) awaitEnd(ctx context.Context) error {
	select {
	case <-p.done:
		return p.exitError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve waits until the agent has read enough for one more message of that weight.
func (p *agentProcess) reserve(ctx context.Context, weight int64) error {
	if p.inputs.TryAcquire(weight) {
		return nil
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.alive, cancel)() // after its end the agent reads nothing
	err := p.inputs.Acquire(wait, weight)
	switch {
	case err == nil:
		return nil
	case p.alive.Err() != nil:
		return p.awaitEnd(ctx)
	}
	return fmt.Errorf("the agent does not read its input: %w", err)
}

// weight returns the part of inputs or outputs that a message takes. Each of them has room
// for one message of the largest size.
func (p *agentProcess) weight(size int) int64 { return int64(min(size, p.host.cfg.MaxMessageBytes)) }

// command is something that run does.
type command struct {
	handle func(*commitBatch, *effects)
	refuse func(error) // tells a client that the command is not done; nil: it must be done
	weight int64       // in outputs
}

// enqueue hands a command to run.
func (p *agentProcess) enqueue(ctx context.Context, next command) error {
	select {
	case p.commands <- next:
		return nil
	case <-p.done:
		return p.exitError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// execute has run call handle, and returns the first error that is passed to finish.
func (p *agentProcess) execute(ctx context.Context, handle func(b *commitBatch, fx *effects, finish func(error))) error {
	done := make(chan error, 1)
	finish := func(err error) {
		select {
		case done <- err:
		default:
		}
	}
	err := p.enqueue(ctx, command{refuse: finish, handle: func(b *commitBatch, fx *effects) {
		fx.refuse, fx.report = finish, finish
		handle(b, fx, finish)
	}})
	if err != nil {
		return err
	}
	result, err := receive(ctx, p, done)
	return cmp.Or(err, result)
}

// intake takes the commands that wait, and waits for one if there are none.
func (p *agentProcess) intake() *commitBatch {
	b := newBatch()
	take := func(c command) { c.handle(b, b.add(c.weight)) }
	for !b.exit && len(b.effects) < maxBatch {
		if len(p.backlog) > 0 {
			take(p.backlog[0])
			p.backlog = p.backlog[1:]
			continue
		}
		if len(b.effects) == 0 {
			take(<-p.commands)
			continue
		}
		select {
		case c := <-p.commands:
			take(c)
		default:
			return b
		}
	}
	return b
}
