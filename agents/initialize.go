package agents

import (
	"context"
	"errors"
)

const methodInitialize = "initialize"

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitInitialize waits until the agent has answered the initialize of the client that
// started it. If the agent has refused that one, awaitInitialize sends another.
func (p *agentProcess) awaitInitialize(ctx context.Context) error {
	if p.greeting == nil {
		return nil
	}
	late := &TimeoutError{p.agent, methodInitialize, p.host.cfg.StartTimeout}
	wait, cancel := context.WithTimeoutCause(ctx, p.host.cfg.StartTimeout, late)
	defer cancel()
	if _, err := receive(wait, p, p.greeting.over); err != nil {
		if context.Cause(wait) == late { //nolint:errorlint // not wrapped
			err = late
		}
		return err
	}
	p.mu.Lock()
	initialized := p.initialized
	p.mu.Unlock()
	if initialized {
		return nil
	}
	return p.initializeWith(ctx, asClient)
}

// initializeWith initializes the agent, and repeats the authenticate of a client.
func (p *agentProcess) initializeWith(ctx context.Context, params []byte) error {
	ctx, cancel := context.WithTimeout(ctx, p.host.cfg.StartTimeout)
	defer cancel()
	if _, err := p.request(ctx, methodInitialize, params); err != nil {
		return err
	}
	p.server.mu.Lock()
	auth := p.server.data.Authenticate
	p.server.mu.Unlock()
	if len(auth) == 0 {
		return nil
	}
	_, err := p.request(ctx, "authenticate", auth)
	if _, refused := errors.AsType[*ResponseError](err); refused {
		p.log.Warn("agent does not authenticate again", "error", err)
		return nil // the agent refuses the next request, whose client gets the error
	}
	return err
}

// asClient has the params of the host's own initialize.
var asClient = []byte(`{"protocolVersion":1,"clientInfo":{"name":"deskhand","version":"1"},` +
	`"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}}`)
