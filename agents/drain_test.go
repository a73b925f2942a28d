package agents_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// Drain waits for turns, and refuses new ones and new sessions.
func TestDrain(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	create(t, h, "busy", agents.SessionOptions{})
	create(t, h, "idle", agents.SessionOptions{})
	turn := say(t, h, "busy", "ask 1")
	stateOf(t, h, "busy", eventlog.Waiting)
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(within(t)) }()
	prompt := []byte(`[{"type":"text","text":"more"}]`)
	wait(t, func() error { // until Drain is called
		if _, err := h.Prompt(within(t), "idle", prompt); !errors.Is(err, agents.ErrDraining) {
			return fmt.Errorf("Prompt = %w", err)
		}
		return nil
	})
	if _, err := h.CreateSession(within(t), "new", agents.SessionOptions{Agent: "scripted", Cwd: t.TempDir()}); !errors.Is(err, agents.ErrDraining) {
		t.Errorf("CreateSession = %v", err)
	}
	if _, err := h.Post(within(t), "other", agents.PostOptions{Agent: "scripted"}, []byte(`{"id":1,"method":"echo"}`)); !errors.Is(err, agents.ErrDraining) {
		t.Errorf("Post to a new server = %v", err)
	}
	select {
	case err := <-drained:
		t.Fatalf("Drain = %v before the turn has ended", err)
	default:
	}
	if err := h.Cancel(within(t), "busy"); err != nil { // messages of running turns are passed on
		t.Fatal(err)
	}
	finish(t, turn)
	if err := <-drained; err != nil {
		t.Errorf("Drain = %v", err)
	}
}

// Drain waits no longer than its context, and not for a closed host.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	create(t, h, "busy", agents.SessionOptions{})
	say(t, h, "busy", "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain = %v", err)
	}
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(t.Context()) }()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-drained; !errors.Is(err, agents.ErrClosed) {
		t.Errorf("Drain of a closed host = %v", err)
	}
}

// TestDrainLeavesSessionsToOthers: a host that is drained ends agents without a turn, so that
// another host with the same log continues their sessions before the first one is closed.
func TestDrainLeavesSessionsToOthers(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.DSN(t)
	one, two := hostOn(t, dsn, agents.Config{}), hostOn(t, dsn, agents.Config{})
	create(t, one, "busy", agents.SessionOptions{})
	create(t, one, "idle", agents.SessionOptions{})
	turn := say(t, one, "busy", "ask 1")
	stateOf(t, one, "busy", eventlog.Waiting)
	drained := make(chan error, 1)
	go func() { drained <- one.Drain(within(t)) }()
	prompt := []byte(`[{"type":"text","text":"more"}]`)
	wait(t, func() error {
		_, err := two.Prompt(within(t), "idle", prompt)
		return err
	})
	var elsewhere *agents.ElsewhereError
	if _, err := two.Prompt(within(t), "busy", prompt); !errors.As(err, &elsewhere) {
		t.Errorf("Prompt during the turn in the other host = %v", err)
	}
	if err := one.Cancel(within(t), "busy"); err != nil {
		t.Fatal(err)
	}
	finish(t, turn)
	if err := <-drained; err != nil {
		t.Errorf("Drain = %v", err)
	}
	wait(t, func() error {
		_, err := two.Prompt(within(t), "busy", prompt)
		return err
	})
}
