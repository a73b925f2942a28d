package agents

import (
	"context"
	"errors"
)

// Message is what a JSON-RPC message is, without its content.
type Message struct {
	// Method is empty for answers, and for what is no JSON-RPC.
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

// Submit is [Host.Post] for who follows the server and takes answers from
// there: it returns as soon as the message is in the log. When the agent ends
// before it answers a request, the server's events tell that alone.
func (h *Host) Submit(ctx context.Context, id string, o PostOptions, body []byte) error {
	env, err := parseClient(body)
	if err != nil {
		return &EnvelopeError{err}
	}
	// An agent that does not read its input must not hold a client for ever.
	wait, cancel := context.WithTimeout(ctx, h.cfg.RequestTimeout)
	defer cancel()
	agent := o.Agent
	err = again(func() error {
		l, err := h.lifeFor(wait, id, o, env)
		if err != nil {
			return err
		}
		agent = l.agent
		err = l.submitCall(wait, env)
		if err != nil && env.method == methodInitialize {
			l.greeted()
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return &TimeoutError{agent, env.method, h.cfg.RequestTimeout}
	}
	return err
}

// submitCall is Submit with a life.
func (l *life) submitCall(ctx context.Context, env *envelope) error {
	c, err := l.prepare(ctx, env)
	if err != nil {
		return err
	}
	if err := l.accept(ctx, c); err != nil || env.method != "session/new" {
		return err
	}
	_ = l.host.task(func(ctx context.Context) { // a closed host needs to learn nothing
		if raw, err := l.await(ctx, c); err == nil {
			l.observe(env.method, raw)
		}
	})
	return nil
}
