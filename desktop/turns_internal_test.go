package desktop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestTurns: an input waits until programs have handled the previous one, unless it is impatient.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		take := func(impatient bool) (taken chan error) {
			taken = make(chan error, 1)
			go func() { taken <- turns.acquire(t.Context(), impatient) }()
			synctest.Wait()
			return taken
		}
		settled := make(chan struct{})
		wait := func(ctx context.Context) error {
			select {
			case <-settled:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := <-take(false); err != nil {
			t.Fatal(err)
		}
		go turns.release(wait)
		next := take(false)
		if len(next) != 0 {
			t.Fatal("the next input did not wait")
		}
		close(settled)
		if err := <-next; err != nil {
			t.Fatal(err)
		}
		settled = make(chan struct{})
		go turns.release(wait)
		synctest.Wait()
		if err := <-take(true); err != nil {
			t.Fatal(err)
		}
		turns.release(nil)
		if turns.impatient != 0 || turns.cut != nil {
			t.Errorf("left behind: %+v", turns)
		}

		if err := <-take(false); err != nil {
			t.Fatal(err)
		}
		viewer := take(true)
		turns.release(wait) // returns, because a caller is impatient
		if err := <-viewer; err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := turns.acquire(ended, true); !errors.Is(err, context.Canceled) || turns.impatient != 0 {
			t.Errorf("acquire = %v, %d impatient callers", err, turns.impatient)
		}
		turns.release(nil)
		turns.skipWaits() // for good
		if err := <-take(false); err != nil {
			t.Fatal(err)
		}
		turns.release(wait)
	})
}

// TestTurnHolder: a caller that waits too long learns whose input has the turn.
func TestTurnHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, ann, bob := newTurns(), Actor{Kind: ActorAgent, Name: "Ann"}, Actor{Kind: ActorAPI, Name: "Bob"}
		take := func(a Actor) error {
			ctx, cancel := context.WithTimeoutCause(t.Context(), inputLimit, &DeadlineError{Op: "move", After: inputLimit})
			defer cancel()
			return turns.acquireFor(ctx, &Action{Actor: a}, "move", false)
		}
		if err := take(ann); err != nil {
			t.Fatal(err)
		}
		err := take(bob)
		late, ok := errors.AsType[*DeadlineError](err)
		if !ok || late.Holder == nil || *late.Holder != ann || err.Error() != "move: not done after 10s: it waited for input of agent Ann to end" {
			t.Errorf("while Ann has the turn: %v", err)
		}
		turns.release(nil)
		if err := take(bob); err != nil || *turns.holder.Load() != bob {
			t.Errorf("after Ann: %v", err)
		}
	})
}
