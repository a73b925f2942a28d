package eventlog_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

func appendEvent(payload string) func(*eventlog.Tx) error {
	return func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: "s", Payload: []byte(payload)})
		return err
	}
}

func payloads(t *testing.T, l *eventlog.Log) string {
	t.Helper()
	var got []string
	for _, e := range readAll(t, l, "s") {
		got = append(got, string(e.Payload))
	}
	return strings.Join(got, " ")
}

// TestTryCommit: TryCommit does not wait for Postgres, also if a Commit waits before it.
func TestTryCommit(t *testing.T) {
	t.Parallel()
	c := testpostgres.Shared(t)
	p := c.Proxy(t)
	l := open(t, eventlog.Config{DSN: p.Through(c.Schema(t))})
	must(t, l.TryCommit(t.Context(), appendEvent("first")))
	p.Refuse()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.Commit(bounded(t), appendEvent("patient")); err != nil {
			t.Error(err)
		}
	})
	begun := time.Now()
	for range 50 {
		wg.Go(func() {
			if err := l.TryCommit(bounded(t), appendEvent("never")); !errors.Is(err, eventlog.ErrUnavailable) {
				t.Errorf("TryCommit = %v", err)
			}
		})
	}
	poll(t, func() error {
		if time.Since(begun) < 300*time.Millisecond {
			return errors.New("not long enough")
		}
		return nil
	})
	if err := l.TryCommit(bounded(t), appendEvent("never")); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("TryCommit = %v", err)
	}
	p.Accept()
	wg.Wait()
	must(t, l.TryCommit(t.Context(), appendEvent("last")))
	if got := payloads(t, l); got != "first patient last" {
		t.Errorf("got %s", got)
	}
}

// TestUncertain: an UncertainError can wait for the outcome of its commit. Other commits get
// ErrUnavailable meanwhile.
func TestUncertain(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]testpostgres.Cut{"before": testpostgres.Before, "after": testpostgres.After} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testpostgres.Shared(t)
			p := c.Proxy(t)
			l := open(t, eventlog.Config{DSN: p.Through(c.Schema(t))})
			must(t, l.TryCommit(t.Context(), appendEvent("first")))
			p.RefuseNew()
			p.CutNext(cut)
			err := l.TryCommit(bounded(t), appendEvent("open"))
			doubt := new(eventlog.UncertainError)
			if !errors.As(err, &doubt) || !errors.Is(err, eventlog.ErrUncertain) {
				t.Fatalf("TryCommit = %v", err)
			}
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := doubt.Wait(short); !errors.Is(err, eventlog.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait = %v", err)
			}
			if err := l.TryCommit(bounded(t), appendEvent("never")); !errors.Is(err, eventlog.ErrUnavailable) {
				t.Errorf("TryCommit = %v", err)
			}
			p.Accept()
			if err := doubt.Wait(bounded(t)); err != nil {
				t.Errorf("Wait = %v", err)
			}
			poll(t, func() error { return l.TryCommit(t.Context(), appendEvent("last")) })
			if got := payloads(t, l); got != "first open last" {
				t.Errorf("got %s", got)
			}
		})
	}
}
