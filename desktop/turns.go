package desktop

import (
	"context"
	"sync"
)

// turns has inputs sent one after the other. A turn ends when programs have handled its
// input, which may be after the caller has its answer.
type turns struct {
	token chan struct{} // holds one; the goroutine that receives it has the turn

	mu      sync.Mutex         // guards what follows
	hurried int                // callers that wait for a turn, but not for programs
	cut     context.CancelFunc // ends the wait for programs; nil: none is under way
}

func newTurns() *turns {
	t := &turns{token: make(chan struct{}, 1)}
	t.token <- struct{}{}
	return t
}

// take waits for a turn, which give ends. If the caller hurries, it does not wait until
// programs have handled the input before.
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

// give ends a turn after quiesce, which waits for programs, or immediately if quiesce is
// nil.
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
	_ = f(ctx) // the next input gets the error of a lost connection
	t.mu.Lock()
	t.cut = nil
	t.mu.Unlock()
}

// hurry ends the wait for programs, and prevents others until calm.
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
