package eventlog_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

func TestAgents(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, eventlog.Config{DSN: dsn(t)})
			at := when
			put := func(server, agent, reason string) {
				t.Helper()
				at = at.Add(time.Second)
				process := eventlog.Process{ID: "l" + at.String(), Server: server, Agent: agent, StartedAt: at, Reason: reason}
				if reason != "" {
					process.ExitedAt = at.Add(time.Minute)
				}
				must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error { return tx.PutProcess(process) }))
			}
			has := func(want ...string) {
				t.Helper()
				if got, err := l.Agents(t.Context()); err != nil || !slices.Equal(got, want) {
					t.Errorf("%q, %v; want %q", got, err, want)
				}
			}
			has()
			put("a", "mock", "")
			put("b", "claude", "exit")
			put("c", "codex", "deleted")
			has("claude", "mock")
			put("a", "mock", "deleted") // earlier processes do not count
			has("claude")
			put("c", "codex", "server")
			put("d", "mock", "server")
			put("b", "pi", "exit") // of another agent
			put("", "", "exit")
			has("", "codex", "mock", "pi")
		})
	}
}

// TestStartProcess: a process that starts is the newest of its server, whatever the clock shows.
func TestStartProcess(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, eventlog.Config{DSN: dsn(t)})
			future := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				return tx.PutProcess(eventlog.Process{ID: "z", Server: "a", Agent: "old", StartedAt: future, ExitedAt: future, Reason: "deleted"})
			}))
			for i, id := range []string{"y", "x", "w"} { // each one before the last, by its name
				must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
					one, err := tx.StartProcess(eventlog.Process{ID: id, Server: "a", Agent: "mock"})
					if want := future.Add(time.Duration(i+1) * time.Microsecond); !one.StartedAt.Equal(want) {
						t.Errorf("%s started at %v, want %v", id, one.StartedAt, want)
					}
					if err != nil {
						return err
					}
					_, err = tx.StartProcess(eventlog.Process{ID: "other" + id, Server: "b" + id, Agent: "mock"})
					return err
				}))
				last, err := l.Processes(t.Context(), eventlog.ProcessFilter{Server: "a", Latest: true})
				if err != nil || len(last) != 1 || last[0].ID != id {
					t.Errorf("the newest of the server is %+v, want %s; %v", last, id, err)
				}
			}
			if got, err := l.Agents(t.Context()); err != nil || !slices.Equal(got, []string{"mock"}) {
				t.Errorf("%q, %v", got, err)
			}
			other, err := l.Process(t.Context(), "otherx")
			if err != nil || other.StartedAt.After(time.Now()) {
				t.Errorf("a process of another server is %+v, %v", other, err)
			}
		})
	}
}

// TestAgentsPlan: the time of Agents does not grow with the number of processes.
func TestAgentsPlan(t *testing.T) {
	t.Parallel()
	dsn := file(t)
	open(t, eventlog.Config{DSN: dsn})
	db, err := sql.Open("sqlite", dsn)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	rows, err := db.QueryContext(t.Context(), "explain query plan "+eventlog.AgentNames)
	must(t, err)
	defer func() { must(t, rows.Close()) }()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		must(t, rows.Scan(&id, &parent, &unused, &step))
		steps = append(steps, step)
	}
	must(t, rows.Err())
	if len(steps) == 0 || slices.ContainsFunc(steps, func(s string) bool {
		return strings.HasPrefix(s, "SCAN") && !strings.HasPrefix(s, "SCAN known")
	}) {
		t.Errorf("the plan is\n%s", strings.Join(steps, "\n"))
	}
}

func BenchmarkAgents(b *testing.B) {
	l := open(b, eventlog.Config{DSN: file(b)})
	for part := range 20 {
		must(b, l.Commit(b.Context(), func(tx *eventlog.Tx) error {
			for i := range 1000 {
				id := fmt.Sprintf("%d-%d", part, i)
				process := eventlog.Process{ID: id, Server: id, Agent: []string{"claude", "codex", "mock"}[i%3], StartedAt: when, ExitedAt: when, Reason: "server"}
				if err := tx.PutProcess(process); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for b.Loop() {
		if got, err := l.Agents(b.Context()); err != nil || len(got) != 3 {
			b.Fatal(got, err)
		}
	}
}

// TestNewestProcess: the newest process of a server is the one that was started last, also before
// its start is committed, and also for a caller that has appended to the stream before.
func TestNewestProcess(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, eventlog.Config{DSN: dsn(t)})
			is := func(tx *eventlog.Tx, want string) {
				t.Helper()
				switch process, err := tx.NewestProcess("acp:srv", "srv"); {
				case want == "" && !errors.Is(err, eventlog.ErrNotFound):
					t.Errorf("NewestProcess = %+v, %v", process, err)
				case want != "" && (err != nil || process.ID != want):
					t.Errorf("NewestProcess = %+v, %v; want %s", process, err, want)
				}
			}
			for i, id := range []string{"a", "b", "c"} {
				must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
					if i == 2 {
						if _, err := tx.Append(eventlog.Event{Stream: "acp:srv"}); err != nil {
							return err
						}
					}
					is(tx, []string{"", "a", "b"}[i])
					_, err := tx.StartProcess(eventlog.Process{ID: id, Server: "srv", StartedAt: when})
					is(tx, id)
					return errors.Join(err, tx.PutProcess(eventlog.Process{ID: "x" + id, Server: "other"}))
				}))
			}
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error { is(tx, "c"); return nil }))
		})
	}
}
