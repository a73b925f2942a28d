package agents_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to lock the database as another program would

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// exhaust waits until a log whose database is locked returns errors. At first it still accepts
// commits.
func exhaust(t *testing.T, log *eventlog.Log) {
	t.Helper()
	wait(t, func() error {
		err := log.Commit(t.Context(), func(tx *eventlog.Tx) error {
			return tx.PutSession(eventlog.Session{ID: "exhaust", State: eventlog.Ended})
		})
		if !errors.Is(err, eventlog.ErrBusy) {
			return fmt.Errorf("a locked log says %w", err)
		}
		return nil
	})
}

// While the log returns errors, clients get errors and the agent waits. Its messages arrive
// afterwards, completely.
func TestLogIsLocked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.db")
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: file, BusyTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, log)
	h := host(t, agents.Config{Log: log})
	id := newSession(t, h, "srv")
	prompt(t, h, "srv", id, "hello")

	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, db)
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closing(t, other)
	if _, err := other.ExecContext(t.Context(), "begin immediate"); err != nil {
		t.Fatal(err)
	}
	exhaust(t, log)
	_, err = h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "lost?")))
	if !errors.Is(err, eventlog.ErrBusy) {
		t.Errorf("Post = %v", err)
	}
	if _, err := other.ExecContext(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	wait(t, func() error {
		_, err := h.Post(t.Context(), "srv", agents.PostOptions{}, []byte(promptOf(id, "after")))
		return err
	})
	text := payloads(stream(t, h, id))
	if strings.Contains(text, "lost?") || !strings.Contains(text, "you said: after") {
		t.Errorf("stream:%s", text)
	}
	if s := stateOf(t, h, id, eventlog.Idle); s.State != eventlog.Idle {
		t.Errorf("session = %+v", s.Session)
	}
}

// Messages that the agent sends while the log returns errors are not lost.
func TestLinesWaitForTheLog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.db")
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: file, BusyTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, log)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, db)
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closing(t, other)
	h := host(t, agents.Config{Log: log, Launch: shell(`i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "{\"method\":\"n\",\"params\":$i}"; done; exec cat >/dev/null`)})
	post(t, h, "srv", `{"method":"go"}`)
	for range 5 {
		if _, err := other.ExecContext(t.Context(), "begin immediate"); err != nil {
			continue // the log was quicker
		}
		exhaust(t, log)
		if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(`{"method":"go"}`)); !errors.Is(err, eventlog.ErrBusy) {
			t.Errorf("Post = %v", err)
		}
		if _, err := other.ExecContext(t.Context(), "rollback"); err != nil {
			t.Fatal(err)
		}
	}
	events := follow(t, h, "srv", agents.Replay{All: true}, `"params":3000}`)
	if len(events) != 3000 {
		t.Errorf("%d events", len(events))
	}
}

// TestIdleAgentThatTalks: an agent without work is ended although it goes on sending messages.
func TestIdleAgentThatTalks(t *testing.T) {
	t.Parallel()
	talk := func(ctx context.Context, in io.Reader, out io.Writer) error {
		asked, err := bufio.NewReader(in).ReadBytes('\n')
		var first struct{ ID json.RawMessage }
		if err = errors.Join(err, json.Unmarshal(asked, &first)); err != nil {
			return err
		}
		for line := `{"jsonrpc":"2.0","result":{},"id":` + string(first.ID) + "}"; ; line = `{"jsonrpc":"2.0","method":"_talk"}` {
			if _, err := io.WriteString(out, line+"\n"); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	h := host(t, agents.Config{IdleTimeout: 200 * time.Millisecond, Launch: func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{Run: talk}, nil
	}})
	post(t, h, "srv", initialize)
	wait(t, func() error {
		list, err := h.Servers(context.Background())
		if err != nil || len(list) != 1 || list[0].Running {
			return errors.New("it runs")
		}
		return nil
	})
}

// An agent without work is ended, and starts again with the next request.
func TestIdle(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{IdleTimeout: time.Millisecond})
	post(t, h, "srv", initialize)
	id := newSession(t, h, "srv")
	prompt(t, h, "srv", id, "hello")
	wait(t, func() error {
		list, err := h.Servers(context.Background())
		if err != nil || len(list) != 1 || list[0].Running {
			return errors.New("it runs")
		}
		return nil
	})
	if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "again"))); err != nil {
		t.Error(err)
	}
}
