package desktop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

var (
	ann   = desktop.Actor{Kind: desktop.ActorViewer, Name: "guest", ID: "1"}
	bob   = desktop.Actor{Kind: desktop.ActorViewer, Name: "guest", ID: "2"}
	robot = desktop.Actor{Kind: desktop.ActorAgent, Name: "claude"}
	api   = desktop.Actor{Kind: desktop.ActorAPI}
)

// canMove reports whether an actor may move the pointer.
func canMove(t *testing.T, d *desktop.Desktop, a desktop.Actor) bool {
	t.Helper()
	_, err := d.Move(desktop.WithActor(t.Context(), a), desktop.Move{At: desktop.Point{X: 10, Y: 10}})
	if err != nil && !errors.Is(err, desktop.ErrControlHeld) {
		t.Fatal(err)
	}
	return err == nil
}

func TestControl(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	ctx := t.Context()
	held := func(err error, by desktop.Actor) {
		t.Helper()
		var e *desktop.ControlHeldError
		if !errors.As(err, &e) || e.Holder != by || !errors.Is(err, desktop.ErrControlHeld) {
			t.Errorf("error = %v, want that %v has control", err, by)
		}
	}
	may := func(want ...desktop.Actor) {
		t.Helper()
		for _, a := range []desktop.Actor{ann, bob, robot, api} {
			wanted := false
			for _, w := range want {
				wanted = wanted || w == a
			}
			if got := canMove(t, d, a); got != wanted {
				t.Errorf("%v may act: %v, want %v; control is %+v", a, got, wanted, d.Control())
			}
		}
	}
	may(ann, bob, robot, api)

	// Granted: API callers and agents may send input, other viewers may not.
	if err := d.RequestControl(ctx, ann); err != nil {
		t.Fatal(err)
	}
	if c := d.Control(); c.Holder == nil || *c.Holder != ann || c.Taken || c.Since.IsZero() {
		t.Errorf("control = %+v", c)
	}
	may(ann, robot, api)
	held(d.RequestControl(ctx, bob), ann)
	if err := d.RequestControl(ctx, ann); err != nil {
		t.Errorf("asking again: %v", err)
	}

	// Taken: the input of all other actors is refused.
	if err := d.TakeControl(ctx, bob, false); err != nil {
		t.Fatal(err)
	}
	may(bob)
	held(d.TakeControl(ctx, ann, false), bob)
	held(d.RequestControl(ctx, ann), bob)
	held(d.GiveControl(ctx, ann, robot), bob)
	if err := d.ReleaseControl(ctx, ann); err != nil || d.Control().Holder == nil {
		t.Errorf("a release by another actor: %v, %+v", err, d.Control())
	}
	if err := d.GiveControl(ctx, bob, robot); err != nil {
		t.Fatal(err)
	}
	may(robot)
	held(d.TakeControl(ctx, api, false), robot)

	// A person stops an agent without being asked to use force.
	if err := d.TakeControl(ctx, ann, false); err != nil {
		t.Fatal(err)
	}
	may(ann)
	if err := d.TakeControl(ctx, api, true); err != nil {
		t.Fatal(err)
	}
	may(api)
	if err := d.ReleaseControl(ctx, api); err != nil {
		t.Fatal(err)
	}
	if c := d.Control(); c != (desktop.Control{}) {
		t.Errorf("control after its release = %+v", c)
	}
	may(ann, bob, robot, api)
}

// pressKey presses a key, which a terminal gets as a small letter unless Shift is
// held down.
func pressKey(t *testing.T, d *desktop.Desktop, path string) {
	t.Helper()
	for _, key := range []string{"a", "Return"} {
		if err := d.Press(t.Context(), desktop.Press{Keys: key}); err != nil {
			t.Fatal(err)
		}
	}
	wantTyped(t, path, "a\n")
}

// TestControlEvents checks the events of control, and that an idle holder loses it with the
// keys it holds.
func TestControlEvents(t *testing.T) {
	t.Parallel()
	if desktop.DefaultControlIdle != time.Minute { // as the documentation says
		t.Errorf("an idle actor keeps control for %v", desktop.DefaultControlIdle)
	}
	d := start(t, desktop.Config{ControlIdle: 3 * time.Second}) // long enough to press the key below
	sub := d.Subscribe(0)
	defer sub.Close()
	path := xterm(t, d)
	ctx := desktop.WithActor(t.Context(), ann)
	if err := d.TakeControl(ctx, ann, false); err != nil {
		t.Fatal(err)
	}
	if err := d.KeyDown(ctx, "shift"); err != nil {
		t.Fatal(err)
	}
	want := []func(desktop.Event) bool{
		func(e desktop.Event) bool {
			return e.Type == desktop.EventControl && e.Control.Taken && *e.Control.Holder == ann
		},
		func(e desktop.Event) bool { return e.Type == desktop.EventControl && e.Control.Holder == nil },
	}
	deadline := time.After(20 * time.Second)
	for len(want) > 0 {
		select {
		case e := <-sub.Events():
			if want[0](e) {
				want = want[1:]
			}
		case <-deadline:
			t.Fatalf("%d events of control did not come", len(want))
		}
	}
	if !canMove(t, d, bob) {
		t.Error("a key is still held after the idle holder has lost control")
	}
	pressKey(t, d, path)
}

// TestControlIdle checks that other actors, which do not get control, do not prolong it.
func TestControlIdle(t *testing.T) {
	t.Parallel()
	const idle = 300 * time.Millisecond
	d := start(t, desktop.Config{ControlIdle: idle})
	if err := d.TakeControl(t.Context(), ann, false); err != nil {
		t.Fatal(err)
	}
	for since := d.Control().Since; d.Control().Holder != nil; {
		if err := d.ReleaseControl(t.Context(), bob); err != nil {
			t.Fatal(err)
		}
		if held := time.Since(since); held > 30*idle {
			t.Fatalf("an idle holder has had control for %v, want %v", held, idle)
		}
	}
}

// holdShift gives control to ann, who holds Shift from then on. It returns a context for her inputs.
func holdShift(t *testing.T, d *desktop.Desktop) context.Context {
	t.Helper()
	as := desktop.WithActor(t.Context(), ann)
	if err := d.RequestControl(as, ann); err != nil {
		t.Fatal(err)
	}
	if err := d.KeyDown(as, "shift"); err != nil {
		t.Fatal(err)
	}
	return as
}

// TestControlMovesReleaseKeys releases the keys and buttons of the former holder.
func TestControlMovesReleaseKeys(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	path := xterm(t, d)
	as := holdShift(t, d)
	if err := d.ReleaseControl(as, ann); err != nil {
		t.Fatal(err)
	}
	pressKey(t, d, path)
}

// TestControlMovesDuringInput takes control while an input of the holder does not end. The next
// input releases the holder's keys.
func TestControlMovesDuringInput(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	path := xterm(t, d)
	as := holdShift(t, d)
	running, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Exclusive(as, func(context.Context, *desktop.Turn) error { // it loses control meanwhile
			close(running)
			<-end
			return nil
		})
	}()
	<-running
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := d.TakeSharedControl(ctx, bob, true); err != nil {
		t.Errorf("TakeSharedControl: %v", err)
	}
	if h := d.Control().Holder; h == nil || *h != bob {
		t.Errorf("%v has control", h)
	}
	close(end)
	<-ended
	pressKey(t, d, path)
}

// TestControlTakenBeforeInput: an input was admitted, and waits for programs. It is refused if
// another actor takes control meanwhile.
func TestControlTakenBeforeInput(t *testing.T) {
	t.Parallel()
	for _, noQuiesce := range []bool{false, true} {
		var d *desktop.Desktop
		d = start(t, desktop.Config{NoQuiesce: noQuiesce, Policy: func(ctx context.Context, _ desktop.Action) error {
			return d.TakeControl(ctx, ann, false) // control was checked before
		}})
		before, err := d.Pointer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Click(desktop.WithActor(t.Context(), robot), desktop.Click{At: &desktop.Point{X: 10, Y: 10}})
		var held *desktop.ControlHeldError
		if !errors.As(err, &held) || held.Holder != ann || errors.Is(err, desktop.ErrInterrupted) {
			t.Errorf("Click() = %v, want that %v has control", err, ann)
		}
		if now, err := d.Pointer(t.Context()); err != nil || now.Point != before.Point {
			t.Errorf("the pointer is at %v, %v, want %v", now.Point, err, before.Point)
		}
	}
}
