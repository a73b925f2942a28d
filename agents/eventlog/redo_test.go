package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testspace"
)

// copied copies the files of a database, as a crash would leave them.
func copied(t testing.TB, path string) string {
	t.Helper()
	to := file(t)
	for _, suffix := range []string{"", "-wal", "-redo"} {
		text, err := os.ReadFile(path + suffix)
		must(t, err)
		must(t, os.WriteFile(to+suffix, text, 0o600))
	}
	return to
}

// stagedLog makes a log with commits that are in the redo log alone: another
// program holds the database.
func stagedLog(t testing.TB) (path string, l *eventlog.Log) {
	t.Helper()
	path = file(t)
	l = open(t, eventlog.Config{DSN: path, BusyTimeout: time.Minute})
	put(t, l, "s", "1")
	settle(t, l)
	other := raw(t, path)
	execute(t, other, "begin immediate")
	t.Cleanup(func() {
		if _, err := other.ExecContext(context.Background(), "rollback"); err != nil {
			t.Error(err)
		}
	})
	for _, p := range []string{"2", "3", "4"} {
		put(t, l, "s", p)
		must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
			return tx.PutSession(eventlog.Session{ID: "session", State: eventlog.Running, Title: p})
		}))
	}
	return path, l
}

// TestRedo: what was in the redo log alone when the server was killed is there
// when it comes back, once, even if that is killed again before it can tell the
// redo log.
func TestRedo(t *testing.T) {
	t.Parallel()
	path, _ := stagedLog(t)
	path = copied(t, path)
	redo, err := os.ReadFile(path + "-redo")
	must(t, err)
	for round := range 3 {
		l := open(t, eventlog.Config{DSN: path})
		if events := readAll(t, l, "s"); len(events) != 4+round || string(events[3].Payload) != "4" {
			t.Errorf("round %d: %d events", round, len(events))
		}
		if s, err := l.Session(t.Context(), "session"); err != nil || s.Title != "4" {
			t.Errorf("round %d: %+v, %v", round, s, err)
		}
		put(t, l, "s", "more")
		must(t, l.Close())
		must(t, os.WriteFile(path+"-redo", redo, 0o600))
	}
}

// TestRedoIsGone: without it, what it had is lost, and nothing else.
func TestRedoIsGone(t *testing.T) {
	t.Parallel()
	path, _ := stagedLog(t)
	other, _ := stagedLog(t)
	for name, change := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { t.Helper(); must(t, os.Remove(path)) },
		"empty":   func(t *testing.T, path string) { t.Helper(); must(t, os.Truncate(path, 0)) },
		"another's": func(t *testing.T, path string) {
			t.Helper()
			text, err := os.ReadFile(other + "-redo")
			must(t, err)
			must(t, os.WriteFile(path, text, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := copied(t, path)
			change(t, path+"-redo")
			l, logged := openDamaged(t, path)
			if n := len(readAll(t, l, "s")); n != 1 {
				t.Errorf("%d events", n)
			}
			if lost := strings.Contains(logged, "redo log is missing or cut off"); lost != (name != "another's") {
				t.Errorf("logged %q", logged)
			}
			if e := put(t, l, "s", "on"); e[0].Seq != 2 {
				t.Errorf("goes on with %d", e[0].Seq)
			}
		})
	}
}

// TestReadYourCommits: whoever reads after a commit sees it, wherever it is.
func TestReadYourCommits(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", file(t)} {
		l := open(t, eventlog.Config{DSN: path, Memory: 1})
		for i := range 50 {
			state := []eventlog.State{eventlog.Idle, eventlog.Running}[i%2]
			put(t, l, "s", "x")
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				return tx.PutSession(eventlog.Session{ID: "session", State: state})
			}))
			if s, err := l.Session(t.Context(), "session"); err != nil || s.State != state {
				t.Fatalf("%+v, %v", s, err)
			}
			if events, err := l.Read(t.Context(), "s", 0, 0); err != nil || len(events) != i+1 {
				t.Fatalf("%d events of %d, %v", len(events), i+1, err)
			}
		}
	}
}

// TestEarlierSchema: a file from before there was a redo log gets one.
func TestEarlierSchema(t *testing.T) {
	t.Parallel()
	path := file(t)
	l := open(t, eventlog.Config{DSN: path})
	put(t, l, "s", "1")
	must(t, l.Close())
	db := raw(t, path)
	execute(t, db, "drop table redo; update schema_version set version = 2")
	must(t, db.Close())
	must(t, os.Remove(path+"-redo"))
	l = open(t, eventlog.Config{DSN: path})
	put(t, l, "s", "2")
	if n := len(readAll(t, l, "s")); n != 2 {
		t.Errorf("%d events", n)
	}
}

// TestDiskFullWhileStaged: what was acknowledged on a disk that is full can be
// read, from the database, all the while.
func TestDiskFullWhileStaged(t *testing.T) {
	t.Parallel()
	dir := testspace.Disk(t, "48m")
	if dir == "" {
		return
	}
	path, ballast := filepath.Join(dir, "log.db"), filepath.Join(dir, "ballast")
	l := open(t, eventlog.Config{DSN: path, Memory: 1})
	put(t, l, "s", "1")
	acknowledged, noise := 1, picture(20_000)
	for round := range 3 {
		settle(t, l)
		if err := os.WriteFile(ballast, make([]byte, 48<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("the disk is not full: %v", err)
		}
		staged := acknowledged
		poll(t, func() error { // for a moment they are taken
			err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				if _, err := tx.Append(eventlog.Event{Stream: "s", Payload: noise}); err != nil {
					return err
				}
				return tx.PutSession(eventlog.Session{ID: "session", State: eventlog.Idle, Title: fmt.Sprint(acknowledged + 1)})
			})
			if err == nil {
				acknowledged++
			}
			if !errors.Is(err, eventlog.ErrFull) {
				return fmt.Errorf("with a full disk: %w", err)
			}
			return nil
		})
		if staged == acknowledged {
			t.Errorf("round %d: nothing was taken without space", round)
		}
		// Also for who finds the disk full before another one has made room.
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				if _, err := l.Session(t.Context(), "session"); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		if n := len(readAll(t, l, "s")); n != acknowledged {
			t.Errorf("round %d: %d events, %d were acknowledged", round, n, acknowledged)
		}
		if s, err := l.Session(t.Context(), "session"); err != nil || s.Title != fmt.Sprint(acknowledged) {
			t.Errorf("round %d: %+v, %v", round, s, err)
		}
		must(t, os.Remove(ballast))
		poll(t, func() error { // and it takes what the next time needs
			put(t, l, "s", "on")
			acknowledged++
			info, err := os.Stat(path + "-redo")
			if must(t, err); info.Size() < 4<<20 {
				return fmt.Errorf("the redo log has %d bytes", info.Size())
			}
			return nil
		})
	}
	must(t, l.Close())
	if n := len(readAll(t, open(t, eventlog.Config{DSN: path}), "s")); n != acknowledged {
		t.Errorf("%d events, %d were acknowledged", n, acknowledged)
	}
}
