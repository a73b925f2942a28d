package eventlog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// TestBrokenCommit: the connection breaks before or after a commit. The log has the event
// once.
func TestBrokenCommit(t *testing.T) {
	t.Parallel()
	c := testpostgres.Shared(t)
	p := c.Proxy(t)
	l := open(t, eventlog.Config{DSN: p.Through(c.Schema(t))})
	append1 := func(ctx context.Context, payload string) error {
		return l.Commit(ctx, func(tx *eventlog.Tx) error {
			_, err := tx.Append(eventlog.Event{Stream: "s", Payload: []byte(payload)})
			return err
		})
	}
	must(t, append1(t.Context(), "first"))
	p.CutNext(testpostgres.Before)
	must(t, append1(t.Context(), "second"))
	p.CutNext(testpostgres.After)
	must(t, append1(t.Context(), "third"))

	// A caller that does not wait for the outcome gets ErrUncertain.
	p.RefuseNew()
	p.CutNext(testpostgres.After)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := append1(ctx, "fourth"); !errors.Is(err, eventlog.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	p.Accept()
	must(t, append1(t.Context(), "fifth"))
	var got []string
	for _, e := range readAll(t, l, "s") {
		got = append(got, string(e.Payload))
	}
	if s := strings.Join(got, " "); s != "first second third fourth fifth" {
		t.Errorf("got %s", s)
	}
}
