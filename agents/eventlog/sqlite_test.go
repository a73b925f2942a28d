package eventlog_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testspace"
)

func TestInUse(t *testing.T) {
	t.Parallel()
	path := file(t)
	l := open(t, eventlog.Config{DSN: "sqlite:" + path})
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(path, link))
	for _, dsn := range []string{path, link} {
		_, err := eventlog.Open(t.Context(), eventlog.Config{DSN: dsn})
		if !errors.Is(err, eventlog.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("%s is open in process %d", path, os.Getpid())) {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	must(t, l.Close())
	must(t, l.Close())
	open(t, eventlog.Config{DSN: link})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]eventlog.Config{
		"dsn begins with host=":             {DSN: "host=db user=me password=secret"},
		"dsn has no // after postgres:":     {DSN: "postgres:secret@host/db"},
		"dsn begins with mysql://":          {DSN: "mysql://user:secret@host/db"},
		"dsn names no file":                 {DSN: "sqlite:"},
		"dsn names":                         {DSN: "/"},
		"dsn is no Postgres URL":            {DSN: "postgres://user:secret@host:port/db"},
		"retention age":                     {Retention: eventlog.Retention{Age: -1}},
		"synchronous must be":               {Synchronous: 7},
		"memory must not be negative":       {Memory: -1},
		"busy timeout must not be negative": {BusyTimeout: -1},
	} {
		_, err := eventlog.Open(t.Context(), cfg)
		if invalid := new(eventlog.InvalidError); !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), field) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestSecrets: only DSNs of Postgres have secrets.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]int{
		"postgres://me@host/db": 2, "postgresql://host/db": 2,
		"": 0, "postgres": 0, "postgres.db": 0, "postgres/events.db": 0, "sqlite:postgres://host/db": 0,
		"postgres:me@host/db": 0, "host=db password=secret": 0,
	} {
		if got := eventlog.Secrets(dsn); len(got) != want {
			t.Errorf("%q: %q, want %d", dsn, got, want)
		}
	}
	if got := open(t, eventlog.Config{}).Secrets(); got != nil {
		t.Errorf("of a log in memory: %q", got)
	}
}

// TestFiles: SQLite makes its files beside the target of a link.
func TestFiles(t *testing.T) {
	t.Parallel()
	path := file(t)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(path, link))
	l := open(t, eventlog.Config{DSN: link})
	put(t, l, "s", "1")
	made, err := filepath.Glob(path + "*")
	must(t, err)
	got := eventlog.Files("sqlite:" + link)
	for _, name := range append(made, link) {
		if !slices.Contains(got, name) && name != path {
			t.Errorf("Files = %q, without %s", got, name)
		}
	}
	if len(made) < 2 {
		t.Errorf("the database has %q", made)
	}
	for _, dsn := range []string{"", "postgres://me@host/db", "host=db password=secret", "mysql://host/db"} {
		if got := eventlog.Files(dsn); got != nil {
			t.Errorf("Files(%q) = %q", dsn, got)
		}
	}
}

// TestOddPath: a path can have the special characters of URLs.
func TestOddPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a?b#c%20d é", "log.db")
	l := open(t, eventlog.Config{DSN: path})
	put(t, l, "s", "1")
	must(t, l.Close())
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if n := len(readAll(t, open(t, eventlog.Config{DSN: path}), "s")); n != 1 {
		t.Errorf("%d events", n)
	}
}

// raw opens a file like another program.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t testing.TB, db *sql.DB, query string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query)
	must(t, err)
}

// TestLockedByAnother checks that a commit fails while another program has the
// database locked, that the log can be read, and that the next commit succeeds.
func TestLockedByAnother(t *testing.T) {
	t.Parallel()
	path := file(t)
	l := open(t, eventlog.Config{DSN: path, BusyTimeout: 100 * time.Millisecond, Memory: 1})
	put(t, l, "s", "1", "2")
	other := raw(t, path)
	execute(t, other, "begin immediate")
	err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: "s"})
		return err
	})
	if !errors.Is(err, eventlog.ErrBusy) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if n := len(readAll(t, l, "s")); n != 2 {
		t.Errorf("%d events while it is locked", n)
	}
	execute(t, other, "rollback")
	if e := put(t, l, "s", "3"); e[0].Seq != 3 {
		t.Errorf("continues with %d", e[0].Seq)
	}
	must(t, l.Close())
	if n := len(readAll(t, open(t, eventlog.Config{DSN: path}), "s")); n != 3 {
		t.Errorf("%d events", n)
	}
}

// TestDamage: a file that is damaged, or is something else, is refused with the
// remedy and not changed.
func TestDamage(t *testing.T) {
	t.Parallel()
	made := func(t *testing.T, change func(t *testing.T, path string)) string {
		t.Helper()
		path := file(t)
		l := open(t, eventlog.Config{DSN: path})
		fill(t, l, "s", 3000)
		must(t, l.Close())
		change(t, path)
		return path
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		want   []string
		as     any
	}{
		"page": {func(t *testing.T, path string) {
			t.Helper()
			text, err := os.ReadFile(path)
			must(t, err)
			copy(text[len(text)/2/4096*4096:], bytes.Repeat([]byte("garbage!"), 512))
			must(t, os.WriteFile(path, text, 0o600))
		}, []string{"is damaged", "move it", ".recover"}, new(*eventlog.CorruptError)},
		"header": {func(t *testing.T, path string) {
			t.Helper()
			must(t, os.WriteFile(path, bytes.Repeat([]byte("no database\n"), 1000), 0o600))
		}, []string{"is damaged", "not a database"}, new(*eventlog.CorruptError)},
		"cut off": {func(t *testing.T, path string) {
			t.Helper()
			must(t, os.Truncate(path, 10*4096))
		}, []string{"is damaged"}, new(*eventlog.CorruptError)},
		"another's": {func(t *testing.T, path string) {
			t.Helper()
			must(t, os.Remove(path))
			db := raw(t, path)
			execute(t, db, "create table mine (x)")
			must(t, db.Close())
		}, []string{"something else"}, new(*eventlog.SchemaError)},
		"newer": {func(t *testing.T, path string) {
			t.Helper()
			db := raw(t, path)
			execute(t, db, "update schema_version set version = 99")
			execute(t, db, "pragma wal_checkpoint(truncate)")
			must(t, db.Close())
		}, []string{"version 99", "use the newer program"}, new(*eventlog.SchemaError)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := made(t, c.change)
			before, err := os.ReadFile(path)
			must(t, err)
			_, err = eventlog.Open(t.Context(), eventlog.Config{DSN: path})
			if !errors.As(err, c.as) {
				t.Fatalf("got %v", err)
			}
			for _, want := range append(c.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
			after, err := os.ReadFile(path)
			if must(t, err); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestTornJournal: of an incomplete -wal file, a prefix of the commits remains.
func TestTornJournal(t *testing.T) {
	t.Parallel()
	path := file(t)
	l := open(t, eventlog.Config{DSN: path})
	const commits = 60
	for i := range commits {
		fill(t, l, "a", 1+i%3)
		fill(t, l, "b", 1)
	}
	db, err := os.ReadFile(path)
	must(t, err)
	journal, err := os.ReadFile(path + "-wal")
	must(t, err)
	shortest, longest := 1<<30, 0
	for cut := range 25 {
		size := len(journal) * (cut + 1) / 25
		torn := bytes.Clone(journal[:size])
		if cut%2 == 0 { // written in part, and followed by other bytes
			torn = append(torn[:size-min(size, 50)], bytes.Repeat([]byte{0xaa}, 5000)...)
		}
		copied := file(t)
		must(t, os.WriteFile(copied, db, 0o600))
		must(t, os.WriteFile(copied+"-wal", torn, 0o600))
		l, logged := openDamaged(t, copied)
		if strings.Contains(logged, "write-ahead log") {
			t.Errorf("%d bytes of %d: %s", size, len(journal), logged)
		}
		b := len(readAll(t, l, "b"))
		a, complete := len(readAll(t, l, "a")), 0
		for i := range b {
			complete += 1 + i%3
		}
		if a != complete && a != complete+1+b%3 {
			t.Errorf("%d bytes of %d: %d events beside %d commits", size, len(journal), a, b)
		}
		shortest, longest = min(shortest, b), max(longest, b)
		put(t, l, "a", "on")
		closeLog(t, l)
	}
	if shortest > 10 || longest < commits-1 {
		t.Errorf("between %d and %d commits remained", shortest, longest)
	}
}

// TestDiskFull: all callers get ErrFull, acknowledged commits stay, and commits succeed again
// when there is space.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := testspace.Disk(t, "6m")
	if dir == "" {
		return
	}
	ballast := filepath.Join(dir, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 3<<20), 0o600))
	path := filepath.Join(dir, "log.db")
	l := open(t, eventlog.Config{DSN: path})
	noise := picture(30_000)
	var number atomic.Int64 // makes each payload another one, because equal ones are stored once
	for round := range 3 {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for {
					err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
						_, err := tx.Append(eventlog.Event{Stream: "s", Payload: fmt.Appendf(bytes.Clone(noise), "%012d", number.Add(1))})
						return err
					})
					if errors.Is(err, eventlog.ErrFull) && strings.Contains(err.Error(), path) {
						return
					}
					if err != nil {
						t.Errorf("got %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		last, err := l.Last(t.Context(), "s")
		must(t, err)
		if n := int64(len(readAll(t, l, "s"))); n != last || n == 0 {
			t.Errorf("%d events, the last is %d", n, last)
		}
		must(t, os.Truncate(ballast, int64(2-round)<<20))
		if e := put(t, l, "s", "on"); e[0].Seq != last+1 {
			t.Errorf("continues with %d after %d", e[0].Seq, last)
		}
	}
	n := len(readAll(t, l, "s"))
	must(t, l.Close())
	if m := len(readAll(t, open(t, eventlog.Config{DSN: path}), "s")); m != n {
		t.Errorf("%d events of %d are there", m, n)
	}
}

// TestCancelledWait: a job whose context ends while the writer is busy is not committed.
func TestCancelledWait(t *testing.T) {
	t.Parallel()
	l := open(t, eventlog.Config{})
	inside, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = l.Commit(t.Context(), func(*eventlog.Tx) error {
			close(inside)
			<-leave
			return nil
		})
	})
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	called := make(chan error, 1)
	wg.Go(func() {
		called <- l.Commit(ctx, func(tx *eventlog.Tx) error {
			_, err := tx.Append(eventlog.Event{Stream: "s"})
			return err
		})
	})
	cancel()
	if err := <-called; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(leave)
	wg.Wait()
	put(t, l, "s", "1")
	if n := len(readAll(t, l, "s")); n != 1 {
		t.Errorf("%d events", n)
	}
}
