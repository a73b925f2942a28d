package agents

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// processFor returns the process for a message of a client, and starts it if need
// be.
func (h *Host) processFor(ctx context.Context, id string, o PostOptions, env *envelope) (*agentProcess, error) {
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
	p, err := s.ensureProcess(ctx, o, init)
	if err != nil {
		h.forget(s)
	}
	switch {
	case !errors.Is(err, ErrServerNotFound):
		return p, err
	case o.Agent == "":
		return nil, ErrAgentNeeded
	}
	return nil, errResting // it was just deleted, so the next one of its id is meant
}

// post is the part of Post that concerns one process.
func (p *agentProcess) post(ctx context.Context, env *envelope) ([]byte, error) {
	c, err := p.prepare(ctx, env)
	if err != nil {
		return nil, err
	}
	wait, cancel := ctx, context.CancelFunc(func() {})
	if env.isRequest() && env.method != "session/prompt" {
		wait, cancel = context.WithTimeout(ctx, p.host.cfg.RequestTimeout)
	}
	defer cancel()
	raw, err := p.send(wait, c)
	switch {
	case err == nil:
		p.observe(env.method, raw)
		p.server.followers.awaitSent(ctx, c.seq)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && wait.Err() != nil:
		err = &TimeoutError{p.agent, env.method, p.host.cfg.RequestTimeout}
	}
	return raw, err
}

// postUnanswered is the part of Submit that concerns one process.
func (p *agentProcess) postUnanswered(ctx context.Context, env *envelope) error {
	c, err := p.prepare(ctx, env)
	if err != nil {
		return err
	}
	if err := p.submitCommitted(ctx, c); err != nil || env.method != "session/new" {
		return err
	}
	_ = p.host.task(func(ctx context.Context) { // a closed host needs to learn nothing
		if raw, err := p.await(ctx, c); err == nil {
			p.observe(env.method, raw)
		}
	})
	return nil
}

// intake takes the commands that wait, and waits for one if there are none.
func (p *agentProcess) intake() *commitBatch {
	b := newBatch()
	for !b.exit && len(b.effects) < maxBatch {
		if len(p.backlog) > 0 {
			p.handle(b, p.backlog[0])
			p.backlog = p.backlog[1:]
			continue
		}
		if len(b.effects) == 0 {
			p.handle(b, <-p.commands)
			continue
		}
		select {
		case c := <-p.commands:
			p.handle(b, c)
		default:
			return b
		}
	}
	return b
}

// handle adds the effects of a command to a batch.
func (p *agentProcess) handle(b *commitBatch, c command) {
	fx := b.add(c.weight)
	switch {
	case c.line != nil:
		p.handleLine(b, fx, c.line)
	case c.long != nil:
		p.handleOutsized(fx, c.long)
	case c.call != nil:
		p.handleCall(b, fx, c.call)
	case c.decide != nil:
		p.handleDecision(b, fx, c.decide)
	case c.edit != nil:
		p.handleEdit(b, fx, c.edit)
	case c.lost != nil:
		p.loseServer(c.lost)
	case c.exit:
		b.exit = true
		p.handleExit(b, fx)
	}
}

// prepare attaches the session that a message names, and adds what is configured for
// a session that it makes or opens.
func (p *agentProcess) prepare(ctx context.Context, env *envelope) (*call, error) {
	c := &call{env: env, origin: originACP}
	id := env.sessionID()
	switch env.method {
	case "session/new", "session/fork", "session/load", "session/resume":
		if err := p.configure(ctx, c); err != nil {
			return nil, err
		}
	}
	if id == "" {
		return c, nil
	}
	if p.sessions.isOpen(id) {
		c.goesOn = goesOn(env)
		return c, nil
	}
	opens := env.method == "session/load" || env.method == "session/resume"
	row, err := p.host.cfg.Log.Session(ctx, id)
	if errors.Is(err, eventlog.ErrNotFound) {
		if opens {
			c.continues, err = p.recordOf(ctx, id)
		} else {
			err = nil
		}
		return c, err // the agent says what it thinks of it
	}
	if err != nil {
		return nil, err
	}
	switch {
	case row.State == eventlog.Starting:
		return nil, ErrSessionStarting
	case opens && row.State != eventlog.Failed && row.Native != "":
		return c, p.prepareOpening(ctx, c, row.ID)
	case !slices.Contains(alive, row.State):
		c.goesOn = goesOn(env) && row.State == eventlog.Ended
	case row.Server == p.server.id:
		c.goesOn = goesOn(env)
		if err := p.restore(ctx, row); err != nil && !(c.goesOn && errors.Is(err, ErrSessionEnded)) {
			return nil, err
		}
	}
	return c, nil
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

// goesOn reports whether a request goes on with a session. No client may do that
// with a session that has ended, but it may open or delete one.
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
	if err := p.awaitRestore(ctx, session); err != nil || p.sessions.isOpen(session) {
		return err
	}
	row, err := p.host.cfg.Log.Session(ctx, session)
	if err != nil {
		return err
	}
	c.opens = openingSession(row)
	return nil
}

// request makes a request of the host's own and returns its result.
func (p *agentProcess) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	env, err := parse(requestOf(0, method, params))
	if err != nil {
		return nil, err
	}
	raw, err := p.send(ctx, &call{env: env, internal: true})
	if errors.Is(err, context.DeadlineExceeded) {
		err = &TimeoutError{Agent: p.agent, Method: method}
	}
	if err != nil {
		return nil, err
	}
	return resultOf(method, raw)
}

// send submits a call and waits for its end. The call goes on after the end of ctx.
func (p *agentProcess) send(ctx context.Context, c *call) ([]byte, error) {
	if err := p.submit(ctx, c); err != nil {
		return nil, err
	}
	return p.await(ctx, c)
}

// submitCommitted submits a call and waits until it is in the log.
func (p *agentProcess) submitCommitted(ctx context.Context, c *call) error {
	c.accepted = make(chan struct{})
	if err := p.submit(ctx, c); err != nil {
		return err
	}
	select {
	case <-c.accepted:
		return nil
	case r := <-c.reply:
		if r.err == nil || isClosed(c.accepted) {
			c.reply <- r // for await
			return nil
		}
		return r.err
	case <-p.done:
		if isClosed(c.accepted) {
			return nil // await returns the error
		}
		return p.exitError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// submit hands a call to run. It waits while the agent does not read its input.
func (p *agentProcess) submit(ctx context.Context, c *call) error {
	if err := p.checkOpen(ctx); err != nil {
		return err
	}
	c.reply = make(chan reply, 1)
	c.weight = p.weight(len(c.env.raw) + len(c.edits))
	if err := p.reserve(ctx, c.weight); err != nil {
		return err
	}
	if err := p.enqueue(ctx, command{call: c}); err != nil {
		p.inputs.Release(c.weight)
		return err
	}
	return nil
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
	watch := make(chan struct{})
	go func() { // ends with this call
		defer close(watch)
		select {
		case <-p.done: // the agent reads no more
			cancel()
		case <-wait.Done():
		}
	}()
	err := p.inputs.Acquire(wait, weight)
	cancel()
	<-watch
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
		return p.exitError()
	}
	return fmt.Errorf("the agent does not read its input: %w", err)
}

// weight returns what a message counts in inputs and outputs, which each hold one
// message of the largest size.
func (p *agentProcess) weight(size int) int64 { return int64(min(size, p.host.cfg.MaxMessageBytes)) }

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

func requestOf(id int, method string, params json.RawMessage) []byte {
	return encode(struct {
		Version string          `json:"jsonrpc"`
		ID      int             `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}{"2.0", id, method, params})
}

// newClientCall returns a message that looks to all clients like one of another
// client. No client chooses an id like its id.
func newClientCall(method string, request bool, params any) (*call, error) {
	var id *string
	if request {
		name := "deskhand-" + strings.ToLower(rand.Text())
		id = &name
	}
	env, err := parse(encode(struct {
		Version string  `json:"jsonrpc"`
		ID      *string `json:"id,omitempty"`
		Method  string  `json:"method"`
		Params  any     `json:"params"`
	}{"2.0", id, method, params}))
	return &call{env: env, origin: originGo}, err
}

// resultOf returns the result in an answer, or its error as a ResponseError.
func resultOf(method string, raw []byte) (json.RawMessage, error) {
	var a struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, &ResponseError{Method: method, Message: "the answer is no JSON-RPC: " + err.Error()}
	}
	if a.Error != nil {
		return nil, &ResponseError{Method: method, Code: a.Error.Code, Message: a.Error.Message, Data: a.Error.Data}
	}
	return a.Result, nil
}

// createdBy is like resultOf for a request that makes a session. The result must have
// the session's id.
func createdBy(method string, raw []byte) (json.RawMessage, error) {
	result, err := resultOf(method, raw)
	if err != nil {
		return nil, err
	}
	var c created
	_ = json.Unmarshal(result, &c)
	if !recordable(c.Session) {
		return nil, &ResponseError{Method: method, Message: fmt.Sprintf("the agent's answer has no sessionId that is text of 1 to %d bytes", maxSessionID)}
	}
	return result, nil
}

// observe passes on what the agent says about itself.
func (p *agentProcess) observe(method string, raw []byte) {
	if method != methodInitialize && method != "session/new" || raw == nil {
		return
	}
	if result, err := resultOf(method, raw); err == nil {
		p.host.cfg.Observe(p.agent, method, result)
	}
}

// errResting says that an idle agent was ended before it got the message. The caller
// starts the agent again.
var errResting = errors.New("the agent was ended because it was idle")

// retryResting calls f again, a few times, while it returns errResting.
func retryResting(f func() error) error {
	for range 3 {
		if err := f(); !errors.Is(err, errResting) {
			return err
		}
	}
	return f()
}
