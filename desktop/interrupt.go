package desktop

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// errReleased is the cause of inputs that ReleaseAll ended.
var errReleased = errors.New("all input was released")

// pendingInputs is the set of long inputs that run or wait for their turn. Other actors
// can end these, and wait for short ones.
type pendingInputs struct {
	mu  sync.Mutex
	all map[*pendingInput]struct{}
}

type pendingInput struct {
	actor  Actor
	acts   bool // it is an input, and not a turn of several
	cancel context.CancelCauseFunc
}

// begin adds an input and returns a context that interrupt ends. done removes the input. acts is
// false for a turn of several inputs.
func (p *pendingInputs) begin(ctx context.Context, a Actor, acts bool) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	in := &pendingInput{a, acts, cancel}
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
		if which(in.actor) {
			in.cancel(cause)
		}
	}
}

// acts reports whether an actor has a long input, other than a turn of several.
func (p *pendingInputs) acts(a Actor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for in := range p.all {
		if in.acts && in.actor.Same(a) {
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
