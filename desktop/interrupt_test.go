package desktop_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestInputIsInterrupted ends long typing by its context, ReleaseAll and another actor's
// control. The error and the event have the progress, and the next input works.
func TestInputIsInterrupted(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	path := xterm(t, d)
	sub := d.Subscribe(0)
	defer sub.Close()
	gone := errors.New("the caller has gone")
	for _, test := range []struct {
		name   string
		end    func(context.Context, context.CancelCauseFunc) error
		cause  string
		wanted error
	}{
		{"context", func(_ context.Context, cancel context.CancelCauseFunc) error { cancel(gone); return nil }, gone.Error(), gone},
		{"release", func(ctx context.Context, _ context.CancelCauseFunc) error { return d.ReleaseAll(ctx) }, "released", nil},
		{"control", func(ctx context.Context, _ context.CancelCauseFunc) error { return d.TakeControl(ctx, ann, false) }, "viewer guest has control", desktop.ErrControlHeld},
		{"forced control", func(ctx context.Context, _ context.CancelCauseFunc) error { return d.TakeControl(ctx, ann, true) }, "viewer guest has control", desktop.ErrControlHeld},
	} {
		if test.name == "forced control" {
			if err := d.TakeControl(t.Context(), robot, true); err != nil {
				t.Fatal(err)
			}
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(desktop.WithActor(t.Context(), robot))
		typed := make(chan error, 1)
		go func() {
			typed <- d.Type(ctx, desktop.Type{Text: strings.Repeat("x\n", 2000), Delay: 100 * time.Millisecond})
		}()
		until(t, "typing has begun", func() bool {
			now, err := os.ReadFile(path)
			return err == nil && len(now) > len(before)
		})
		began := time.Now()
		if err := test.end(t.Context(), cancel); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		err = <-typed
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: typing ended after %v", test.name, took)
		}
		var cut *desktop.InterruptedError
		if !errors.As(err, &cut) || !strings.Contains(err.Error(), test.cause) || !strings.HasSuffix(cut.Done, " of 4000 characters were typed") ||
			test.wanted != nil && !errors.Is(err, test.wanted) {
			t.Errorf("%s: Type() = %v, want an *InterruptedError with the progress", test.name, err)
		}
		e := await(t, sub, "the typing of "+test.name, func(e desktop.Event) bool { return e.Type == desktop.EventAction && e.Action.Name == "type" })
		if a := e.Action; a.Typed == nil || *a.Typed < 1 || *a.Typed >= 4000 || a.Length != 4000 || !strings.Contains(a.Error, test.cause) {
			t.Errorf("%s: the event is %+v", test.name, a)
		}
		if test.name == "context" || test.name == "release" {
			if _, err := d.Click(t.Context(), desktop.Click{}); err != nil {
				t.Errorf("%s: the next click: %v", test.name, err)
			}
		} else if !canMove(t, d, ann) {
			t.Errorf("%s: the new holder may not act", test.name)
		}
		cancel(nil)
		if err := d.ReleaseControl(t.Context(), ann); err != nil {
			t.Error(err)
		}
	}
}

// TestShortTypingIsInterrupted: ReleaseAll and a forced take end the typing of a short text that
// a program which hangs does not take. Only one keycode is unused, so that the third character waits
// until the program has taken the first two. The test is not parallel, because it searches all
// goroutines for that wait.
func TestShortTypingIsInterrupted(t *testing.T) {
	testx11.Require(t, "xmodmap")
	d := start(t, desktop.Config{})
	xterm(t, d)
	w, err := d.FocusedWindow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const occupy = `xmodmap -pke | grep '= *$' | tail -n +2 | sed 's/$/ x/' | xmodmap -`
	if app, err := d.Launch(t.Context(), desktop.Launch{App: "sh", Args: []string{"-c", occupy}, Wait: true}); err != nil || app.ExitCode != 0 {
		t.Fatalf("xmodmap: %+v, %v", app, err)
	}
	signal(t, w.PID, syscall.SIGSTOP)
	defer signal(t, w.PID, syscall.SIGCONT)
	if err := d.TakeControl(t.Context(), api, false); err != nil {
		t.Fatal(err)
	}
	stacks := make([]byte, 4<<20)
	for name, end := range map[string]func() error{
		"release":        func() error { return d.ReleaseAll(t.Context()) },
		"forced control": func() error { return d.TakeControl(t.Context(), ann, true) },
	} {
		typed := make(chan error, 1)
		go func() { typed <- d.Type(t.Context(), desktop.Type{Text: "漢字中文", Mode: desktop.TypeKeys}) }()
		until(t, "typing waits for the program", func() bool {
			return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("quiesce.(*Tracker).Drain("))
		})
		began := time.Now()
		if err := end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var cut *desktop.InterruptedError
		if err := <-typed; !errors.As(err, &cut) || cut.Done != "2 of 4 characters were typed" {
			t.Errorf("%s: Type() = %v, want an *InterruptedError with the progress", name, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: typing ended after %v", name, took)
		}
		if err := d.TakeControl(t.Context(), api, true); err != nil {
			t.Error(err)
		}
	}
}

// TestTypingIsNotIdle: an actor keeps control while a long text is typed, also within its turn.
// The end of control would wait for the turn for 10 s.
func TestTypingIsNotIdle(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{ControlIdle: 500 * time.Millisecond})
	xterm(t, d)
	as := desktop.WithActor(t.Context(), robot)
	if err := d.TakeControl(as, robot, false); err != nil {
		t.Fatal(err)
	}
	sub := d.Subscribe(0)
	defer sub.Close()
	if err := d.Exclusive(as, func(ctx context.Context, _ *desktop.Turn) error {
		return d.Type(ctx, desktop.Type{Text: "0123456789ab", Delay: time.Second})
	}); err != nil {
		t.Errorf("typing of the actor with control: %v", err)
	}
	await(t, sub, "the typing", func(e desktop.Event) bool {
		if e.Type == desktop.EventControl && e.Control.Holder == nil {
			t.Error("control ended before the typing")
		}
		return e.Type == desktop.EventAction
	})
}

// TestWaitsAreIdle: an actor that only waits within its turn loses control.
func TestWaitsAreIdle(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{ControlIdle: 500 * time.Millisecond})
	as := desktop.WithActor(t.Context(), robot)
	if err := d.TakeControl(as, robot, false); err != nil {
		t.Fatal(err)
	}
	err := d.Exclusive(as, func(ctx context.Context, turn *desktop.Turn) error {
		if _, err := d.Move(ctx, at(5)); err != nil {
			return err
		}
		for began := time.Now(); d.Control().Holder != nil; {
			if time.Since(began) > 10*time.Second {
				return errors.New("it still has control")
			}
			err := turn.Yield(ctx, func(ctx context.Context) error {
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				<-short.Done()
				return ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestViewerReleasesOnlyItsOwn: a viewer that releases its keys, as its page does when it loses
// the focus, ends no input of an agent.
func TestViewerReleasesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	path := xterm(t, d)
	typed := make(chan error, 1)
	go func() {
		typed <- d.Type(desktop.WithActor(t.Context(), robot), desktop.Type{Text: "0123456789\n", Delay: 100 * time.Millisecond})
	}()
	until(t, "typing has begun", func() bool { return typing(d) })
	if err := d.ReleaseAll(desktop.WithActor(t.Context(), ann)); err != nil {
		t.Error(err)
	}
	if err := <-typed; err != nil {
		t.Errorf("Type() = %v", err)
	}
	wantTyped(t, path, "0123456789\n")
}

// typing reports whether an agent has sent input.
func typing(d *desktop.Desktop) bool { return len(d.Actors()) > 0 }
