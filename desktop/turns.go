package desktop

import (
	"context"
	"sync"
)

// turns has inputs sent one after the other. A turn ends when programs have dealt with
// its input. The caller that sent the input has its answer before that.
type turns struct {
	token chan struct{} // holds one: its holder may send input

	mu      sync.Mutex         // guards what follows
	hurried int                // callers that wait for a turn, but not for programs
	cut     context.CancelFunc // ends the wait for programs; nil: none is under way
}

func newTurns() *turns {
	t := &turns{token: make(chan struct{}, 1)}
	t.token <- struct{}{}
	return t
}

// take waits for a turn, which give ends. A caller that hurries does not wait until
// programs have dealt with the input before.
func (t *turns) take(ctx context.Context, hurries bool) error {
	if hurries {
		t.hurry()
		defer t.calm()
	}
	select {
	case <-t.token:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// give ends a turn when quiesce, which waits for programs, has returned. If quiesce is
// nil, give ends the turn immediately.
func (t *turns) give(quiesce func(context.Context) error) {
	if quiesce != nil {
		t.quiesce(quiesce)
	}
	t.token <- struct{}{}
}

func (t *turns) quiesce(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t.mu.Lock()
	wanted := t.hurried == 0
	if wanted {
		t.cut = cancel
	}
	t.mu.Unlock()
	if !wanted {
		return
	}
	_ = f(ctx) // an X server that is gone is for the next input to tell
	t.mu.Lock()
	t.cut = nil
	t.mu.Unlock()
}

// hurry ends the wait for programs, and lets none begin before calm.
func (t *turns) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hurried++
	if t.cut != nil {
		t.cut()
	}
}

func (t *turns) calm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hurried--
}
