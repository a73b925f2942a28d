package desktop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errReleased is the cause of inputs that ReleaseAll ended.
var errReleased = errors.New("all input was released")

// pendingInputs is the set of inputs that other actors can end: typing and turns of several inputs, which
// run or wait for their turn. A short text is one of them while it has its turn, and has shortTyping to
// end by itself. Other actors wait for all other inputs.
type pendingInputs struct {
	mu  sync.Mutex
	all map[*pendingInput]struct{}
}

type pendingInput struct {
	actor  Actor
	typing bool      // it is typing, and not a turn of several inputs
	keep   time.Time // when it may be ended
	cancel context.CancelCauseFunc
}

// begin adds an input and returns a context that interrupt ends, but not within the time keep. done
// removes the input. typing is false for a turn of several inputs.
func (p *pendingInputs) begin(ctx context.Context, a Actor, typing bool, keep time.Duration) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	in := &pendingInput{a, typing, time.Now().Add(keep), cancel}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = make(map[*pendingInput]struct{})
	}
	p.all[in] = struct{}{}
	return ctx, func() {
		p.mu.Lock()
		delete(p.all, in)
		p.mu.Unlock()
		cancel(nil)
	}
}

// interrupt ends the inputs of all actors that which selects.
func (p *pendingInputs) interrupt(cause error, which func(Actor) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for in := range p.all {
		switch left := time.Until(in.keep); {
		case !which(in.actor):
		case left > 0:
			time.AfterFunc(left, func() { in.cancel(cause) })
		default:
			in.cancel(cause)
		}
	}
}

// typing reports whether an actor types.
func (p *pendingInputs) typing(a Actor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for in := range p.all {
		if in.typing && in.actor.Same(a) {
			return true
		}
	}
	return false
}

// cutShort adds the progress of an action to its error. It replaces the error of ctx by a
// *DeadlineError or an *InterruptedError.
func cutShort(ctx context.Context, op string, a *Action, err error) error {
	if err == nil {
		return nil
	}
	progress := ""
	if a.Typed != nil {
		progress = fmt.Sprintf("%d of %d characters were typed", *a.Typed, a.Length)
	}
	var deadline *DeadlineError
	switch cause := context.Cause(ctx); {
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		if progress == "" {
			return err
		}
		return fmt.Errorf("%s: %w", progress, err)
	case errors.As(cause, &deadline):
		return &DeadlineError{Op: deadline.Op, After: deadline.After, Done: progress}
	default:
		return &InterruptedError{Op: op, Done: progress, Cause: cause}
	}
}
