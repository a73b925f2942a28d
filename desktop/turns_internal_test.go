package desktop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestTurns has an input wait for the programs of the one before, unless it hurries.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		take := func(hurries bool) (taken chan error) {
			taken = make(chan error, 1)
			go func() { taken <- turns.take(t.Context(), hurries) }()
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
		go turns.give(wait)
		next := take(false)
		if len(next) != 0 {
			t.Fatal("the next input did not wait")
		}
		close(settled)
		if err := <-next; err != nil {
			t.Fatal(err)
		}
		settled = make(chan struct{})
		go turns.give(wait)
		synctest.Wait()
		if err := <-take(true); err != nil {
			t.Fatal(err)
		}
		turns.give(nil)
		if turns.hurried != 0 || turns.cut != nil {
			t.Errorf("left behind: %+v", turns)
		}

		if err := <-take(false); err != nil {
			t.Fatal(err)
		}
		viewer := take(true)
		turns.give(wait) // returns, because a caller hurries
		if err := <-viewer; err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := turns.take(ended, true); !errors.Is(err, context.Canceled) || turns.hurried != 0 {
			t.Errorf("take = %v, %d hurry", err, turns.hurried)
		}
		turns.give(nil)
		turns.hurry() // for good
		if err := <-take(false); err != nil {
			t.Fatal(err)
		}
		turns.give(wait)
	})
}
