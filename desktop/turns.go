package desktop

import (
	"context"
	"sync"
)

// turns serializes inputs. A turn ends when programs have handled its input, which may be
// after the call for that input has returned.
type turns struct {
	token chan struct{} // holds one token; the goroutine that receives it has the turn

	mu        sync.Mutex         // guards the fields below
	impatient int                // number of callers that wait for a turn, but not for programs
	cut       context.CancelFunc // ends the wait for programs; nil: none is under way
}

func newTurns() *turns {
	t := &turns{token: make(chan struct{}, 1)}
	t.token <- struct{}{}
	return t
}

// acquire waits for a turn, which release ends. If impatient is set, it does not wait until
// programs have handled the previous input.
func (t *turns) acquire(ctx context.Context, impatient bool) error {
	if impatient {
		t.skipWaits()
		defer t.allowWaits()
	}
	select {
	case <-t.token:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release ends a turn after quiesce, which waits for programs, or immediately if quiesce is
// nil.
func (t *turns) release(quiesce func(context.Context) error) {
	if quiesce != nil {
		t.quiesce(quiesce)
	}
	t.token <- struct{}{}
}

func (t *turns) quiesce(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t.mu.Lock()
	wanted := t.impatient == 0
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

// skipWaits ends the present wait for programs, and prevents new ones until allowWaits.
func (t *turns) skipWaits() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.impatient++
	if t.cut != nil {
		t.cut()
	}
}

func (t *turns) allowWaits() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.impatient--
}
