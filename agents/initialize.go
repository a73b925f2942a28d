package agents

import (
	"context"
	"errors"
)

const methodInitialize = "initialize"

// expectInitialize records that the client's initialize is on its way. params are those
// that the process before got.
func (p *agentProcess) expectInitialize(params []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.initializing, p.initParams = make(chan struct{}), params
}

// initializeDone records that the initialize was answered, or does not come.
func (p *agentProcess) initializeDone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.initializing != nil && !isClosed(p.initializing) {
		close(p.initializing)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitInitialize waits until the agent has told its capabilities. If the client does
// not initialize the agent, awaitInitialize does.
func (p *agentProcess) awaitInitialize(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, p.host.cfg.StartTimeout)
	defer cancel()
	for {
		p.mu.Lock()
		coming, with := p.initializing, p.initParams
		if p.initialized || coming == nil {
			p.mu.Unlock()
			return nil
		}
		mine := isClosed(coming)
		if mine {
			p.initializing = make(chan struct{})
		}
		p.mu.Unlock()
		if mine {
			defer p.initializeDone()
			return p.initializeWith(ctx, with)
		}
		select {
		case <-coming:
		case <-p.done:
			return p.exitError()
		case <-ctx.Done():
			return ctx.Err()
		case <-wait.Done():
			return &TimeoutError{p.agent, methodInitialize, p.host.cfg.StartTimeout}
		}
	}
}

// initializeWith initializes the agent with params, or in the host's own name if they
// are empty.
func (p *agentProcess) initializeWith(ctx context.Context, params []byte) error {
	if len(params) == 0 {
		params = asClient
	}
	ctx, cancel := context.WithTimeout(ctx, p.host.cfg.StartTimeout)
	defer cancel()
	return p.replayInitialize(ctx, params)
}

// replayInitialize repeats the initialize and authenticate of a client.
func (p *agentProcess) replayInitialize(ctx context.Context, params []byte) error {
	result, err := p.request(ctx, methodInitialize, params)
	if err != nil {
		return err
	}
	p.host.cfg.Observe(p.agent, methodInitialize, result)
	p.server.mu.Lock()
	auth := p.server.data.Authenticate
	p.server.mu.Unlock()
	if len(auth) == 0 {
		return nil
	}
	_, err = p.request(ctx, "authenticate", auth)
	if _, refused := errors.AsType[*ResponseError](err); refused {
		p.log.Warn("agent does not authenticate again", "error", err)
		return nil // the next request tells its client
	}
	return err
}

// asClient is the initialize of the host itself.
var asClient = []byte(`{"protocolVersion":1,"clientInfo":{"name":"deskhand","version":"1"},` +
	`"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}}`)
