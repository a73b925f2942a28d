package desktop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// TestNamedSecret types a secret by name: to its end, until another actor takes control, and
// against the policy. Neither events, errors, logs nor the policy get a part of its text, or
// its length.
func TestNamedSecret(t *testing.T) {
	t.Parallel()
	const password, long = "hunter2-Äß", "LONGWORD"
	values := map[string]string{
		"PASSWORD": password + "\n", "LONG": strings.Repeat(long+"\n", 1000), "BELL": "hunter2\a",
	}
	var log bytes.Buffer // the desktop's logger locks it
	var refuses atomic.Bool
	var told, asked strings.Builder // what callers, and the policy, got
	d := start(t, desktop.Config{
		Logger:      slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		SecretValue: func(name string) (string, bool) { v, ok := values[name]; return v, ok },
		Policy: func(_ context.Context, a desktop.Action) error { // called for one action at a time
			fmt.Fprintf(&asked, "%+v\n", a)
			if refuses.Load() {
				return fmt.Errorf("the policy refuses %+v", a)
			}
			return nil
		},
	})
	path := xterm(t, d)
	sub := d.Subscribe(0)
	defer sub.Close()
	as := desktop.WithActor(t.Context(), robot)
	typeNamed := func(ctx context.Context, name string, delay time.Duration) error {
		err := d.Type(ctx, desktop.Type{SecretName: name, Delay: delay})
		fmt.Fprintf(&told, "%v %+v\n", err, err)
		return err
	}
	if err := typeNamed(as, "PASSWORD", 0); err != nil {
		t.Fatal(err)
	}
	wantTyped(t, path, password+"\n")
	if err := typeNamed(desktop.WithPerson(as), "PASSWORD", 0); err != nil {
		t.Fatal(err)
	}
	wantTyped(t, path, password+"\n"+password+"\n")

	typed := make(chan error, 1)
	go func() { typed <- typeNamed(as, "LONG", 100*time.Millisecond) }()
	until(t, "typing has begun", func() bool {
		now, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(now), long)
	})
	if err := d.TakeControl(t.Context(), ann, false); err != nil {
		t.Error(err)
	}
	var cut *desktop.InterruptedError
	if err := <-typed; !errors.As(err, &cut) || cut.Done != "" {
		t.Errorf("Type() = %v, want an *InterruptedError without progress", err)
	}
	if err := d.ReleaseControl(t.Context(), ann); err != nil {
		t.Error(err)
	}
	refuses.Store(true)
	if err := typeNamed(as, "PASSWORD", 0); err == nil {
		t.Error("the policy does not refuse it")
	}
	refuses.Store(false)
	if err := typeNamed(as, "NONE", 0); !errors.Is(err, desktop.ErrSecretNotFound) {
		t.Errorf("Type of an unknown secret = %v", err)
	}
	if err := typeNamed(as, "BELL", 0); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("Type of a secret with a control character = %v", err)
	}
	if err := d.Type(as, desktop.Type{SecretName: "PASSWORD", Text: "x"}); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("Type of a secret and a text = %v", err)
	}
	if err := d.Type(as, desktop.Type{Text: "end"}); err != nil {
		t.Error(err)
	}

	var events strings.Builder
	var named []desktop.Action
	await(t, sub, "the last action", func(e desktop.Event) bool {
		text, err := json.Marshal(e)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&events, "%s %+v\n", text, e.Action)
		if e.Action != nil && e.Action.Secret != "" {
			named = append(named, *e.Action)
		}
		return e.Action != nil && e.Action.Text == "end"
	})
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if len(named) != 3 {
		t.Errorf("%d events have the name of a secret, want 3: %+v", len(named), named)
	}
	for _, a := range named {
		if a.Name != desktop.ActionType || a.Length != 0 || a.Typed != nil || a.Text != "" || a.Keys != "" {
			t.Errorf("the event of a secret is %+v", a)
		}
	}
	for what, text := range map[string]string{"errors": told.String(), "policy": asked.String(), "events": events.String(), "log": log.String()} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, long) || strings.Contains(text, "characters were") {
			t.Errorf("%s have a part of a secret:\n%s", what, text)
		}
	}
}
