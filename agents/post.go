package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// PostOptions accompany a message to an ACP server.
type PostOptions struct {
	// Agent is the agent that the server runs. It is required with the first message, and
	// to restart an agent that ended without a request.
	Agent string

	// Desktop is the id of a desktop that the agent gets as tools and in its environment
	// (see Config.Mount) when its process starts. Empty: the desktop of the process before,
	// or Config.Desktop.
	Desktop string
}

// Post passes a message to the agent of an ACP server. The first message makes the
// server.
//
//   - For a request, Post returns the answer, which may be an error of JSON-RPC.
//   - For a notification, and for the answer to a question of the agent, Post returns nil
//     after the message is in the log.
//   - A request that continues a session that has ended is answered with an error. The
//     agent does not get it.
//
// A client sees the events of a turn no later than the turn's answer: before Post returns
// an answer it waits, for at most 100 ms, until the streams that follow the server have
// passed it on (see [Stream.Sent]). It does not wait for a stream that is behind.
//
// The end of ctx ends only the wait, with the error of ctx. The request continues, and its
// answer is among the server's events.
//
// Errors: [EnvelopeError], [ErrNotObject], [InvalidError], [ErrAgentNeeded], [ConflictError],
// [StartError], [ExitedError], [TimeoutError], [RestoreError], [ErrTooManyRequests],
// [ErrTooManyAgents], [ErrNoMemory], [ErrDraining], [ErrClosed], [ElsewhereError], errors of
// Config.Launch and errors of the log.
func (h *Host) Post(ctx context.Context, id string, o PostOptions, body []byte) (answer []byte, err error) {
	err = h.pass(ctx, id, o, body, true, func(wait context.Context, p *agentProcess, c *call) error {
		if answer, err = p.await(wait, c); err == nil {
			p.server.followers.awaitSent(ctx, c.answerSeq)
		}
		return err
	})
	return answer, err
}

// Submit is like [Host.Post] but returns when the message is in the log. It waits until the
// agent is started, but not for the agent's answer. The caller takes the answer from the
// server's events, which also report the end of the agent.
func (h *Host) Submit(ctx context.Context, id string, o PostOptions, body []byte) error {
	return h.pass(ctx, id, o, body, false, func(context.Context, *agentProcess, *call) error { return nil })
}

// pass submits a message of a client to its process, waits for the commit, and calls await,
// which may wait for the answer. It starts again if the process ends before it gets the message.
func (h *Host) pass(
	ctx context.Context, id string, o PostOptions, body []byte, answer bool, await func(context.Context, *agentProcess, *call) error,
) error {
	env, err := parseClient(body)
	switch {
	case err != nil:
		return &EnvelopeError{err}
	case id == "" || len(id) > maxServerID || sanitized(id) != id:
		return &InvalidError{"serverId", fmt.Sprintf("must be text of 1 to %d bytes", maxServerID)}
	}
	method := env.method
	return retryResting(func() error {
		c := newCall(env, originACP)
		p, err := h.process(ctx, id, o, nil, c)
		switch {
		case errors.Is(err, ErrServerNotFound) && o.Agent == "":
			return ErrAgentNeeded
		case errors.Is(err, ErrServerNotFound):
			return errResting // it was deleted meanwhile, so the message is for a new server
		case err != nil:
			return err
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if !answer || method != "session/prompt" { // a turn takes any time
			wait, cancel = context.WithTimeout(ctx, h.cfg.RequestTimeout)
		}
		defer cancel()
		if !c.submitted {
			if err = p.prepare(ctx, c); err == nil {
				err = p.submit(wait, c)
			}
		}
		if err == nil {
			err = p.awaitCommit(wait, c)
		}
		if err == nil {
			env = nil // it is not sent again, and the answer may take any time
			err = await(wait, p, c)
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && wait.Err() != nil {
			err = &TimeoutError{p.agent, method, h.cfg.RequestTimeout}
		}
		return err
	})
}

// process returns the process of a server, and starts one if that is allowed. c is the
// client's message, or nil. init and c are as in [server.ensureProcess].
func (h *Host) process(ctx context.Context, id string, o PostOptions, init []byte, c *call) (*agentProcess, error) {
	s, err := h.find(ctx, id)
	if errors.Is(err, ErrServerNotFound) && o.Agent != "" {
		s, err = h.servers.create(h, id), nil
	}
	if err != nil {
		return nil, err
	}
	if c != nil && !c.env.object {
		s.forget()
		return nil, ErrNotObject
	}
	p, err := s.ensureProcess(ctx, o, init, c)
	if err != nil {
		s.forget()
	}
	return p, err
}

// errResting reports that an idle agent was ended before it got the message. The caller
// starts the agent again.
var errResting = errors.New("the agent was ended because it was idle")

// retryResting calls f up to four times, while it returns errResting.
func retryResting(f func() error) error {
	for range 3 {
		if err := f(); !errors.Is(err, errResting) {
			return err
		}
	}
	return f()
}

// Message describes a JSON-RPC message.
type Message struct {
	// Method is empty for answers, and for objects that are not JSON-RPC.
	Method string

	// Session is the session that the params name. Empty: none.
	Session string

	// Request reports whether the message wants an answer.
	Request bool
}

// Inspect describes a message of a client or an agent. It returns an [EnvelopeError] or
// [ErrNotObject] if it is not a JSON object.
func Inspect(message []byte) (Message, error) {
	e, err := parse(message)
	switch {
	case err != nil:
		return Message{}, &EnvelopeError{err}
	case !e.object:
		return Message{}, ErrNotObject
	}
	return Message{Method: e.method, Session: e.sessionID(), Request: e.isRequest()}, nil
}

// RequestID returns a copy of a request's id, or null if it has none.
func RequestID(request []byte) json.RawMessage {
	if e, err := parse(request); err == nil && e.id.exists() {
		return bytes.Clone(e.bytes(e.id))
	}
	return json.RawMessage("null")
}

// Failure returns the answer to the request with that id for which [Host.Post] has returned an
// error, for callers that have already sent a status.
func Failure(id json.RawMessage, err error) []byte {
	var data any
	if exited, ok := errors.AsType[*ExitedError](err); ok {
		data = map[string]any{"agent": exited.Agent, "exitCode": exited.Code, "agentStderr": exited.Stderr}
	}
	return errorAnswer(id, codeInternal, err.Error(), data)
}
