package desktop

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Turn is a turn of the input queue that [Desktop.Exclusive] holds for several inputs. Its
// methods may be called by one goroutine at a time.
type Turn struct {
	in    *inputs
	actor Actor
	inner *turns // of the inputs within this turn
	lost  bool   // another caller may have the turn

	done atomic.Int64 // inputs that succeeded
}

type turnKey struct{}

// awaitTurn is the operation of errors.
const awaitTurn = "wait for the input queue"

// turnFrom returns the turn of in that a context holds, or nil.
func (in *inputs) turnFrom(ctx context.Context) *Turn {
	if t, ok := ctx.Value(turnKey{}).(*Turn); ok && t.in == in {
		return t
	}
	return nil
}

// turnsOf returns the turns that an input with that context waits for.
func (in *inputs) turnsOf(ctx context.Context) *turns {
	if t := in.turnFrom(ctx); t != nil {
		return t.inner
	}
	return in.turns
}

// Exclusive waits for the turn of an input, at most for 10 s, and calls f. Inputs with the
// context of f run within that turn: each waits until programs have handled the previous one,
// and no other caller's input runs between them. Another call of Exclusive with that context
// uses the same turn. The context must not be used after f has returned.
//
// The context of f ends if another actor takes control or calls ReleaseAll, as for
// typing: inputs return an *InterruptedError then. It also ends if the desktop is closed.
// Exclusive returns the error of f, a *ControlHeldError if another actor has control, or a
// *DeadlineError, with its Holder, if other input takes longer than 10 s.
func (d *Desktop) Exclusive(ctx context.Context, f func(context.Context, *Turn) error) error {
	if t := d.turnFrom(ctx); t != nil {
		return f(ctx, t)
	}
	began := false // f must run once
	err, refused := waitForControl(ctx, &d.inputs, func() (error, error) {
		err := d.exclusive(ctx, func(ctx context.Context, t *Turn) error {
			began = true
			return f(ctx, t)
		})
		if began {
			return err, nil
		}
		return nil, err
	})
	if refused != nil {
		return refused
	}
	return err
}

// exclusive is Exclusive without the wait of WithControlWait.
func (in *inputs) exclusive(ctx context.Context, f func(context.Context, *Turn) error) error {
	if _, err := in.enter(); err != nil {
		return fmt.Errorf("%s: %w", awaitTurn, err)
	}
	t := &Turn{in: in, actor: ActorFrom(ctx), inner: in.turns.within(), lost: true}
	defer func() { go t.end() }()
	ctx, done := in.pending.begin(ctx, t.actor, false, 0)
	defer done()
	ctx, cancel := endWith(ctx, in.closing)
	defer cancel()
	if err := in.control.allows(t.actor); err != nil {
		return err
	}
	if err := t.acquire(ctx); err != nil {
		if held, ok := errors.AsType[*ControlHeldError](err); ok {
			return held // control ended the turn before it began
		}
		return in.explain(ctx, awaitTurn, err)
	}
	err := f(context.WithValue(ctx, turnKey{}, t), t)
	t.emitCut(ctx)
	if errors.Is(err, context.Canceled) {
		err = in.explain(ctx, awaitTurn, err)
	}
	return err
}

// acquire waits for the turn.
func (t *Turn) acquire(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, inputLimit, &DeadlineError{Op: awaitTurn, After: inputLimit})
	defer cancel()
	if err := t.in.turns.acquireFor(ctx, &Action{Actor: t.actor}, awaitTurn, t.actor.Kind == ActorViewer); err != nil {
		return err
	}
	t.lost = false
	return nil
}

// emitCut emits an event if ctx, the context of the turn, has ended.
func (t *Turn) emitCut(ctx context.Context) {
	if ctx.Err() == nil {
		return
	}
	n := int(t.done.Load())
	t.in.emit(&Action{
		Name: ActionExclusive, Actor: t.actor, Count: n, Time: time.Now(),
	}, &InterruptedError{Op: ActionExclusive.words(), Done: fmt.Sprintf("%d inputs were done", n), Cause: context.Cause(ctx)})
}

// end gives the turn back when programs have handled the last input.
func (t *Turn) end() {
	defer t.in.leave()
	if t.lost {
		return
	}
	<-t.inner.token
	t.in.turns.release(nil)
}

// Quiesce waits until programs have handled the previous input, at most as long as an input
// waits for them. It returns an *InterruptedError if ctx ends.
func (t *Turn) Quiesce(ctx context.Context) error {
	if err := t.inner.acquire(ctx, false); err != nil {
		return cutShort(ctx, awaitTurn, &Action{}, err)
	}
	t.inner.release(nil)
	return nil
}

// Yield calls f while other callers may send input, and waits for the turn again, at most for
// 10 s. f must not send input with the context of the turn. Yield returns the error of f, or
// else a *ControlHeldError if another actor has control now.
//
// If the turn does not come back, the error also wraps a *DeadlineError or, if ctx ends, an
// *InterruptedError. Further inputs with the context of the turn fail then.
func (t *Turn) Yield(ctx context.Context, f func(context.Context) error) error {
	if err := t.inner.acquire(ctx, false); err != nil {
		return cutShort(ctx, awaitTurn, &Action{}, err)
	}
	t.in.turns.release(nil)
	t.lost = true
	err := f(ctx)
	if e := t.acquire(ctx); e != nil {
		return errors.Join(err, e) // inputs within the turn wait until ctx ends
	}
	t.inner.release(nil)
	if err == nil {
		err = t.in.control.current().refusal(t.actor)
	}
	return err
}
