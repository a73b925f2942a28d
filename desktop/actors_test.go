package desktop_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// TestSharedControl takes control without keeping API callers and agents out.
func TestSharedControl(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	ctx := t.Context()
	if err := d.TakeControl(ctx, robot, false); err != nil {
		t.Fatal(err)
	}
	if err := d.TakeSharedControl(ctx, api, false); err == nil {
		t.Error("an API caller took exclusive control from an agent without force")
	}
	if err := d.TakeSharedControl(ctx, ann, false); err != nil {
		t.Fatal(err)
	}
	if c := d.Control(); c.Holder == nil || *c.Holder != ann || c.Taken {
		t.Errorf("control = %+v, want it shared by %v", c, ann)
	}
	if !canMove(t, d, robot) || !canMove(t, d, api) || canMove(t, d, bob) {
		t.Error("shared control must refuse the input of other viewers only")
	}
	// The holder chooses either, and keeps control meanwhile.
	since := d.Control().Since
	if err := d.TakeControl(ctx, ann, false); err != nil || canMove(t, d, robot) {
		t.Errorf("alone: %v, %+v", err, d.Control())
	}
	if err := d.TakeSharedControl(ctx, ann, false); err != nil || !canMove(t, d, robot) {
		t.Errorf("shared again: %v, %+v", err, d.Control())
	}
	if c := d.Control(); !c.Since.Equal(since) {
		t.Errorf("control began anew: %+v", c)
	}
}

func TestActors(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	if got := d.Actors(); len(got) != 0 {
		t.Errorf("at first: %v", got)
	}
	canMove(t, d, ann) // viewers are known elsewhere
	canMove(t, d, robot)
	first := d.Actors()
	if len(first) != 1 || first[0].Actor != robot || time.Since(first[0].Seen) > time.Minute {
		t.Fatalf("actors = %+v, want %v", first, robot)
	}
	if err := d.TakeControl(t.Context(), ann, false); err != nil {
		t.Fatal(err)
	}
	canMove(t, d, api) // which is refused
	canMove(t, d, robot)
	if got := d.Actors(); len(got) != 2 || got[0].Actor != robot || got[1].Actor != api || !got[0].Seen.After(first[0].Seen) {
		t.Errorf("actors = %+v", got)
	}
	for i := range 40 {
		canMove(t, d, desktop.Actor{Kind: desktop.ActorAPI, Name: fmt.Sprint(i)})
	}
	if got := d.Actors(); len(got) != 32 || got[31].Actor.Name != "39" {
		t.Errorf("%d actors, the last is %+v", len(got), got[len(got)-1])
	}
}

// TestPrograms counts a program once, whether it was launched, has windows, or
// both.
func TestPrograms(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	count := func() int {
		list, err := d.Windows(t.Context(), desktop.WindowFilter{})
		if err != nil {
			t.Fatal(err)
		}
		return d.Status().Programs(list)
	}
	if n := count(); n != 0 {
		t.Errorf("%d programs on an empty desktop: %+v", n, d.Status().Processes)
	}
	xterm(t, d)
	if n := count(); n != 1 {
		t.Errorf("%d programs with one terminal", n)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "sleep", Args: []string{"1000"}}); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 2 {
		t.Errorf("%d programs with a terminal and one without a window", n)
	}
}
