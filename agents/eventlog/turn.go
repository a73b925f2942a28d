package eventlog

import (
	"context"
	"sync"
	"time"
)

// turn is had by one at a time. The zero value is ready to use.
type turn struct {
	once sync.Once
	free chan struct{} // has an element when nobody has it

	mu       sync.Mutex // guards what follows
	failures int
	err      error // the newest
}

func (t *turn) init() {
	t.once.Do(func() {
		t.free = make(chan struct{}, 1)
		t.free <- struct{}{}
	})
}

// take waits for the turn, which the caller gives back.
func (t *turn) take(ctx context.Context) error {
	t.init()
	select {
	case <-t.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join is take for one of many. When another one fails to begin meanwhile, so
// does the caller, once its own patience is over: what that one has waited for, a
// lock of another program's, would cost each of those in the line the same time
// again.
func (t *turn) join(ctx context.Context, patience time.Duration) error {
	begun := time.Now()
	before, _ := t.failed()
	if err := t.take(ctx); err != nil {
		return err
	}
	if now, err := t.failed(); now != before && time.Since(begun) >= patience {
		t.give(nil)
		return err
	}
	return nil
}

func (t *turn) failed() (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures, t.err
}

// give gives the turn back. The error says why the caller could not begin.
func (t *turn) give(err error) {
	if err != nil {
		t.mu.Lock()
		t.failures, t.err = t.failures+1, err
		t.mu.Unlock()
	}
	t.free <- struct{}{}
}
