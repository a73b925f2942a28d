package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// PostOptions come with a message to an ACP server.
type PostOptions struct {
	// Agent is which agent the server is to run. It is needed with the first
	// message, and to start one again that ended by itself.
	Agent string

	// Desktop is the id of a desktop that the agent gets as tools and in its
	// environment: see Config.Mount. It counts when a process starts. Empty:
	// the one before, or that of Config.Desktop.
	Desktop string
}

// Post passes a message to the agent of an ACP server. The first message makes the
// server.
//
//   - For a request, Post waits for the answer and returns it, also if it is an error
//     of JSON-RPC.
//   - For a notification, and for the answer to a question of the agent's, Post returns
//     nil once the message is in the log.
//   - A request that goes on with a session that has ended is answered with an error,
//     without the agent.
//
// A client sees the events of a turn no later than the turn's answer: before Post
// returns an answer it waits, for 100 ms at most, until the streams that follow the
// server have passed it on, as [Stream.Sent] tells. It does not wait for a stream that
// is behind or has stalled.
//
// The end of ctx only ends the wait: the request goes on, and its answer is among the
// server's events.
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
	err = retryResting(func() error {
		p, err := h.processFor(ctx, id, o, env)
		if err == nil {
			raw, err = p.post(ctx, env)
			if env.method == methodInitialize {
				p.initializeDone()
			}
		}
		return err
	})
	return raw, err
}

// Submit is like [Host.Post] but returns as soon as the message is in the log. The
// caller follows the server and takes the answer from its events. Only these tell
// that the agent has ended before it answered.
func (h *Host) Submit(ctx context.Context, id string, o PostOptions, body []byte) error {
	env, err := parseClient(body)
	if err != nil {
		return &EnvelopeError{err}
	}
	// An agent that does not read its input must not block a client forever.
	wait, cancel := context.WithTimeout(ctx, h.cfg.RequestTimeout)
	defer cancel()
	agent := o.Agent
	err = retryResting(func() error {
		p, err := h.processFor(wait, id, o, env)
		if err != nil {
			return err
		}
		agent = p.agent
		err = p.postUnanswered(wait, env)
		if err != nil && env.method == methodInitialize {
			p.initializeDone()
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return &TimeoutError{agent, env.method, h.cfg.RequestTimeout}
	}
	return err
}

// Message is what a JSON-RPC message is, without its content.
type Message struct {
	// Method is empty for answers, and for objects that are not JSON-RPC.
	Method string

	// Session is the one that its params name. Empty: none.
	Session string

	// Request says that it wants an answer.
	Request bool
}

// Inspect looks at a message of a client's or an agent's. Errors:
// [EnvelopeError] and [ErrNotObject].
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

// Answered tells whether a message is a request, so that [Host.Post] waits for
// its answer.
func Answered(message []byte) bool {
	e, err := parse(message)
	return err == nil && e.isRequest()
}

// Failure is the answer to a request that an error of [Host.Post] stands for,
// for whom a status cannot be told any more.
func Failure(request []byte, err error) []byte {
	id := json.RawMessage("null")
	if e, bad := parse(request); bad == nil && e.id.there() {
		id = e.bytes(e.id)
	}
	var data any
	if exited, ok := errors.AsType[*ExitedError](err); ok {
		data = map[string]any{"agent": exited.Agent, "exitCode": exited.Code, "agentStderr": exited.Stderr}
	}
	return failureOf(id, codeInternal, err.Error(), data)
}
