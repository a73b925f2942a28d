package desktop

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/panics"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPanics: a panic during a call ends that call alone.
func TestPanics(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	var text testlog.Buffer
	d, err := Start(t.Context(), Config{
		Logger: slog.New(slog.NewTextHandler(&text, nil)),
		Policy: func(_ context.Context, a Action) error { // called in a turn
			if a.Actor.Name == "bob" {
				panic("refused")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := d.current()
	if err != nil {
		t.Fatal(err)
	}
	bob := WithActor(t.Context(), Actor{Kind: ActorAgent, Name: "bob"})
	blind := &session{log: s.log, conn: s.conn, capture: s.capture, trim: s.trim} // without windows
	ouch := func(context.Context, *session) (int, error) { panic("ouch") }
	for name, f := range map[string]func() error{
		"query": func() error {
			_, err := call(t.Context(), &d.lifecycle, "query", time.Minute, ouch)
			return err
		},
		"input": func() error {
			_, err := act(t.Context(), &d.inputs, "press", time.Minute, &Action{Name: ActionPress}, nil, ouch)
			return err
		},
		"policy": func() error { return d.Press(bob, Press{Keys: "a"}) },
		"end of the call": func() error {
			done := make(chan struct{})
			_, err := callThen(t.Context(), &d.lifecycle, "query", time.Minute, func(context.Context, *session) (int, error) { return 0, panics.Err },
				func(*session) { defer close(done); panic("late") })
			<-done
			return err
		},
		"probe": func() error { return s.probe(time.Minute, nil, func() error { panic("asked") }) },
		"screenshot": func() error {
			_, err := d.takeScreenshot(t.Context(), blind, ScreenshotOptions{Format: PNG})
			return err
		},
	} {
		if err := f(); !errors.Is(err, panics.Err) {
			t.Errorf("%s: %v, want %v", name, err, panics.Err)
		}
	}
	if _, err := d.Move(t.Context(), Move{At: Point{X: 5, Y: 6}}); err != nil {
		t.Errorf("move after the panics: %v", err)
	}
	if _, err := d.Screenshot(t.Context(), ScreenshotOptions{}); err != nil {
		t.Errorf("screenshot after the panics: %v", err)
	}
	if st := d.Status(); st.Restarts > 0 {
		t.Errorf("the desktop was restarted: %+v", st.LastError)
	}
	for _, part := range []string{"panic=ouch", "panic=refused", "panic=late", "panic=asked", "TestPanics"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is not in the log", part)
		}
	}
}

// TestTurnAfterPanic: a turn ends although the wait for programs panics.
func TestTurnAfterPanic(t *testing.T) {
	t.Parallel()
	turns := newTurns()
	if err := turns.acquire(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		turns.release(func(context.Context) error { panic("ouch") })
	}()
	if len(turns.token) == 0 {
		t.Error("the turn did not end")
	}
}
