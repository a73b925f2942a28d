package agents

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to lock the database as another program would

	"github.com/deskhand/deskhand/agents/eventlog"
)

// The server reads no further from an agent that writes many short lines while the log returns
// errors.
func TestBacklogOfShortLines(t *testing.T) {
	t.Parallel()
	const n, room = 300, 64 << 10
	file := filepath.Join(t.TempDir(), "events.db")
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: file, BusyTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	begin, taken := make(chan struct{}), make(chan struct{})
	h := startHost(t, Config{Log: log, MaxMessageBytes: room, Launch: func(context.Context, string) (Launch, error) {
		return Launch{Run: func(_ context.Context, in io.Reader, out io.Writer) error {
			<-begin
			for range n {
				if _, err := io.WriteString(out, "1\n"); err != nil { // it waits until the line before is taken
					return err
				}
			}
			close(taken)
			_, err := io.Copy(io.Discard, in)
			return err
		}}, nil
	}})
	greet(t, h, "a")
	s, _ := h.servers.get("a")
	p := s.newestProcess()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "begin immediate"); err != nil {
		t.Fatal(err)
	}
	close(begin)
	await(t, "the reading of the agent", func() bool {
		if !p.inbox.lines.TryAcquire(room / 100) {
			return true
		}
		p.inbox.lines.Release(room / 100)
		return isClosed(taken)
	})
	if isClosed(taken) {
		t.Errorf("%d lines are in memory", n)
	}
	if err := errors.Join(other.Close(), db.Close()); err != nil { // which ends the transaction
		t.Fatal(err)
	}
	await(t, "all lines in the log", func() bool {
		last, err := log.Last(t.Context(), serverStream("a"))
		return err == nil && last == n
	})
}
