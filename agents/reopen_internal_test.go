package agents

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// TestReopenAfterUndo: a question whose answer was undone is open in the log again, although the
// answer was in the batch in which the host took the question back.
func TestReopenAfterUndo(t *testing.T) {
	t.Parallel()
	c := testpostgres.Shared(t)
	proxy := c.Proxy(t)
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: proxy.Through(c.Schema(t))})
	if err != nil {
		t.Fatal(err)
	}
	const asked = `{"id":"q1","method":"session/request_permission","params":{"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"}]}}` + "\n"
	h := startHost(t, Config{Log: log, StateDir: t.TempDir(), GoneAfter: time.Hour, Launch: func(context.Context, string) (Launch, error) {
		return Launch{Run: func(_ context.Context, in io.Reader, out io.Writer) error {
			_, err := io.WriteString(out, asked)
			_, _ = io.Copy(io.Discard, in)
			return err
		}}, nil
	}})
	greet(t, h, "srv")
	awaitLine(t, h, "srv", "session/request_permission")
	p := h.servers.processes()[0]
	pending := func() []eventlog.Request {
		all, err := log.Requests(t.Context(), eventlog.RequestFilter{Process: p.id, Pending: true})
		if err != nil && !errors.Is(err, eventlog.ErrUnavailable) {
			t.Fatal(err)
		}
		return all
	}
	q := pending()[0]
	err = log.Commit(t.Context(), func(tx *eventlog.Tx) error { // of another host
		row, err := tx.Process(p.id)
		if err != nil {
			return err
		}
		row.ExitedAt, row.Reason = time.Now(), endedServer
		if _, err := tx.Answer(q.RequestKey, eventlog.Cancelled, nil); err != nil {
			return err
		}
		return tx.PutProcess(row)
	})
	if err != nil {
		t.Fatal(err)
	}
	put := func(c command) {
		t.Helper()
		if err := p.inbox.put(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	collecting, collect, refused := make(chan bool), make(chan bool), make(chan error, 1)
	put(command{handle: func(*effects) { close(collecting); <-collect }})
	<-collecting
	put(command{handle: func(fx *effects) {
		fx.refuse = func(err error) { refused <- err }
		if err := p.intake.questions.reply(fx, q.PublicID, Reply{Option: "yes"}); err != nil {
			t.Error(err)
		}
	}})
	put(command{handle: p.intake.reopen})
	proxy.Refuse()
	close(collect)
	if err := <-refused; !errors.Is(err, eventlog.ErrUnavailable) {
		t.Fatal(err)
	}
	proxy.Accept()
	for deadline := time.Now().Add(20 * time.Second); len(pending()) != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the question is lost")
		}
		done := make(chan bool)
		put(command{handle: func(fx *effects) { fx.afterCommit(func() { close(done) }) }})
		<-done
	}
}
