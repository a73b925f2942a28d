package desktop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestKeysWithoutListener types into a window that does not listen for keys. An agent gives up
// its turn while it waits for a listener. A viewer does not wait.
func TestKeysWithoutListener(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xev")
	begun := make(chan struct{}, 1)
	d := start(t, desktop.Config{Policy: func(_ context.Context, a desktop.Action) error {
		if a.Actor == robot && a.Name == "type" {
			begun <- struct{}{}
		}
		return nil
	}})
	app, err := d.Launch(t.Context(), desktop.Launch{App: "xev", Args: []string{"-event", "structure"}, Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it has the focus", func() bool {
		w, err := d.FocusedWindow(t.Context())
		return err == nil && w.ID == app.Window
	})
	viewer, agent := desktop.WithActor(t.Context(), ann), desktop.WithActor(t.Context(), robot)
	typed := func(ctx context.Context) error { return d.Type(ctx, desktop.Type{Text: "x"}) }
	begin := time.Now()
	if err := typed(viewer); err != nil {
		t.Fatal(err)
	}
	viewers := time.Since(begin)

	done := make(chan error, 1)
	begin = time.Now()
	go func() { done <- typed(agent) }()
	<-begun
	if err := d.TakeControl(t.Context(), ann, false); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.KeyDown(viewer, "shift"), d.ReleaseAll(viewer)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("the viewer waited until the agent had typed: %v", err)
	default:
	}
	if err := <-done; !errors.Is(err, desktop.ErrControlHeld) {
		t.Errorf("the agent typed while another actor had control: %v", err)
	}
	if agents := time.Since(begin); viewers > agents/2 {
		t.Errorf("the viewer waited %v, the agent %v", viewers, agents)
	}
	if err := d.ReleaseControl(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	if err := typed(agent); err != nil { // it is known now
		t.Error(err)
	}
}
