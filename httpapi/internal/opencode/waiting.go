package opencode

import (
	"context"
	"errors"
	"sync"
)

// errAborted is the cause of the end of a prompt that was aborted before the agent had it.
var errAborted = errors.New("the prompt was aborted")

// waiting has the prompts that agents do not have yet. The prompts of a session take turns, so
// that one of them starts the agent, and each has the model and the mode that it chose. The
// zero value is ready to use.
type waiting struct {
	mu  sync.Mutex // guards all, and prompts and last of its elements
	all map[string]*queue
}

// queue has the prompts of a session that wait.
type queue struct {
	turn    chan struct{} // holds a value while a prompt has its turn
	prompts map[int]context.CancelCauseFunc
	last    int
}

// enter waits for the turn of a prompt of a session. The context that it returns ends when ctx
// does, when the prompt is aborted, and with leave, which ends the turn. The error is the cause
// of that end.
func (w *waiting) enter(ctx context.Context, session string) (_ context.Context, leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w.mu.Lock()
	q := w.all[session]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1), prompts: map[int]context.CancelCauseFunc{}}
		if w.all == nil {
			w.all = map[string]*queue{}
		}
		w.all[session] = q
	}
	q.last++
	number := q.last
	q.prompts[number] = cancel
	w.mu.Unlock()

	remove := func() {
		cancel(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(q.prompts, number); len(q.prompts) == 0 {
			delete(w.all, session)
		}
	}
	select {
	case q.turn <- struct{}{}:
		return ctx, func() { <-q.turn; remove() }, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
		remove()
		return nil, nil, err
	}
}

// abort ends the prompts of a session that wait.
func (w *waiting) abort(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.all[session]; q != nil {
		for _, cancel := range q.prompts {
			cancel(errAborted)
		}
	}
}
