package desktop

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// turns serializes inputs. A turn ends when programs have handled its input, which may be
// after the call for that input has returned.
type turns struct {
	token  chan struct{}         // holds one token; the goroutine that receives it has the turn
	holder atomic.Pointer[Actor] // has the turn; nil: none, or it is not known
	*waits
}

// waits is the wait for programs after an input, and the callers that do not want it.
type waits struct {
	mu        sync.Mutex         // guards the fields below
	impatient int                // number of callers that wait for a turn, but not for programs
	cut       context.CancelFunc // ends the wait for programs; nil: none is under way
}

func newTurns() *turns {
	t := &turns{token: make(chan struct{}, 1), waits: &waits{}}
	t.token <- struct{}{}
	return t
}

// within returns turns for inputs within a turn of t.
func (t *turns) within() *turns {
	inner := &turns{token: make(chan struct{}, 1), waits: t.waits}
	inner.token <- struct{}{}
	return inner
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

// acquireFor is like acquire, for the input of an actor. A *DeadlineError names the actor whose
// input has the turn.
func (t *turns) acquireFor(ctx context.Context, a *Action, op string, impatient bool) error {
	err := cutShort(ctx, op, a, t.acquire(ctx, impatient))
	if err == nil {
		t.holder.Store(&a.Actor)
		return nil
	}
	if late, ok := errors.AsType[*DeadlineError](err); ok {
		late.Holder = t.holder.Load()
	}
	return err
}

// release ends a turn after quiesce, which waits for programs, or immediately if quiesce is
// nil.
func (t *turns) release(quiesce func(context.Context) error) {
	defer func() { // also if quiesce panics
		t.holder.Store(nil)
		t.token <- struct{}{}
	}()
	if quiesce != nil {
		t.quiesce(quiesce)
	}
}

func (w *waits) quiesce(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.mu.Lock()
	wanted := w.impatient == 0
	if wanted {
		w.cut = cancel
	}
	w.mu.Unlock()
	if !wanted {
		return
	}
	_ = f(ctx) // the next input gets the error of a lost connection
	w.mu.Lock()
	w.cut = nil
	w.mu.Unlock()
}

// skipWaits ends the present wait for programs, and prevents new ones until allowWaits.
func (w *waits) skipWaits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.impatient++
	if w.cut != nil {
		w.cut()
	}
}

func (w *waits) allowWaits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.impatient--
}
