package agents

import (
	"context"
)

const methodInitialize = "initialize"

// expect says that the initialize of the client for whom the process was started
// is on its way. params are those that the process before got.
func (l *life) expect(params []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.greeting, l.greetWith = make(chan struct{}), params
}

// greeted says that the initialize was answered, or does not come.
func (l *life) greeted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.greeting != nil && !isClosed(l.greeting) {
		close(l.greeting)
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

// acquaint waits until the agent has said what it can, for what depends on that:
// the client that is to ask may not have its answer yet. When it does not ask, the
// host does.
func (l *life) acquaint(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, l.host.cfg.StartTimeout)
	defer cancel()
	for {
		l.mu.Lock()
		coming, with := l.greeting, l.greetWith
		if l.ready || coming == nil {
			l.mu.Unlock()
			return nil
		}
		mine := isClosed(coming)
		if mine {
			l.greeting = make(chan struct{})
		}
		l.mu.Unlock()
		if mine {
			defer l.greeted()
			return l.introduce(ctx, with)
		}
		select {
		case <-coming:
		case <-l.done:
			return l.exited()
		case <-ctx.Done():
			return ctx.Err()
		case <-wait.Done():
			return &TimeoutError{l.agent, methodInitialize, l.host.cfg.StartTimeout}
		}
	}
}

// introduce initializes the agent as the process before was, or in the host's own
// name.
func (l *life) introduce(ctx context.Context, params []byte) error {
	if len(params) == 0 {
		params = asClient
	}
	ctx, cancel := context.WithTimeout(ctx, l.host.cfg.StartTimeout)
	defer cancel()
	return l.initialize(ctx, params)
}
