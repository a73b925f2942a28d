package eventlog

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Mode is what a commit waits for.
type Mode int

const (
	// Full waits until the disk has the events: they survive the loss of power.
	Full Mode = iota

	// Normal waits until the operating system has them: they survive kill -9 of the
	// server, but the last ones may be lost if the machine crashes. It is several
	// times faster with one writer. With Postgres it is synchronous_commit=off: events
	// survive kill -9 of this server but not of Postgres.
	Normal
)

// Config configures a [Log].
type Config struct {
	// DSN is the path of a file for SQLite, which may begin with "sqlite:", or
	// the "postgres://" URL of a database that several servers may share. The
	// file's folder is made when it is missing. Empty: in memory, lost with
	// Close.
	DSN string

	// Synchronous is the mode of commits. Zero: [Full].
	Synchronous Mode

	// Retention bounds the events that are kept. Zero: all are kept.
	Retention Retention

	// BusyTimeout is how long a commit waits for another program that has
	// locked the database, before it fails with [ErrBusy]. Zero: 5 s.
	BusyTimeout time.Duration

	// Memory is about how many bytes of the newest events are kept in memory,
	// of all streams together, for followers. Zero: 64 MiB.
	Memory int

	// OnAppend is called after each commit for each stream that this opening of the log has
	// appended to, with the sequences of the stream's last event before the commit and
	// now. All commits wait for it: it must be quick and must not call the log. Nil: none.
	OnAppend func(stream string, before, last int64)

	// OnSession is called after each commit for each session that this opening of the log has
	// stored, with its id. All commits wait for it, as for OnAppend. Nil: none.
	OnSession func(id string)

	// OnCommit is called after each commit with the time that the database took for it. All
	// commits wait for it: it must be quick and must not call the log. Nil: none.
	OnCommit func(took time.Duration)

	// OnArrival is called when events of another server arrive for followers in this one, with
	// the time since the oldest of them was written, by the clocks of the two servers. It must
	// be quick. Nil: none.
	OnArrival func(lag time.Duration)

	// Logger gets errors that no call returns, such as a lost connection or a retention
	// that failed. Nil: they are not logged.
	Logger *slog.Logger
}

// Retention bounds the events that are kept of each stream. The oldest events are dropped
// first. The newest one is never dropped, so that the sequence continues. Zero fields do
// not bound.
//
// If any field is set, the record of a process and its requests are removed as well when
// the process has ended, no session has an event of it, and its server was deleted (see
// [ReasonDeleted]) or has a newer process. Sessions stay.
type Retention struct {
	Events int           // the number of events
	Bytes  int64         // the size of their payloads before compression
	Age    time.Duration // the age of the oldest event

	// Except is a stream that is not bounded. Empty: all are.
	Except string

	// Interval is how often it is enforced. Zero: each minute.
	Interval time.Duration
}

func (r Retention) off() bool { return r.Events == 0 && r.Bytes == 0 && r.Age == 0 }

func (c Config) withDefaults() Config {
	if c.BusyTimeout == 0 {
		c.BusyTimeout = 5 * time.Second
	}
	if c.Memory == 0 {
		c.Memory = 64 << 20
	}
	if c.Retention.Interval == 0 {
		c.Retention.Interval = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	for _, f := range []struct {
		name string
		bad  bool
	}{
		{"retention events", c.Retention.Events < 0},
		{"retention bytes", c.Retention.Bytes < 0},
		{"retention age", c.Retention.Age < 0},
		{"retention interval", c.Retention.Interval < 0},
		{"busy timeout", c.BusyTimeout < 0},
		{"memory", c.Memory < 0},
	} {
		if f.bad {
			return &InvalidError{f.name, "must not be negative"}
		}
	}
	if c.Synchronous != Full && c.Synchronous != Normal {
		return &InvalidError{"synchronous", "must be Full or Normal"}
	}
	return nil
}

// Secrets returns the names of the environment variables that can have a password for the
// database of a DSN: PGPASSWORD and PGSSLPASSWORD for Postgres (PostgreSQL documentation,
// libpq, Environment Variables), and none for a file or for a DSN that [Open] refuses.
// Child processes should not get them, because they could write to the log with them.
func Secrets(dsn string) []string {
	if postgres, _, err := split(dsn); err != nil || postgres == "" {
		return nil
	}
	return []string{"PGPASSWORD", "PGSSLPASSWORD"}
}

// Files returns the file of a DSN and the files that SQLite makes beside it, which are beside the target
// if the file is a link. It returns none for Postgres, for a log in memory, and for a DSN that [Open] refuses.
func Files(dsn string) []string {
	_, file, err := split(dsn)
	if err != nil || file == "" {
		return nil
	}
	files := []string{file}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	return append(files, file+"-wal", file+"-shm", file+"-journal")
}

// parameters are the words with which Postgres's keyword/value DSN can begin. Such a DSN is
// refused: as the name of a file it would show the password.
var parameters = []string{"host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service", "sslmode", "application_name"}

// split returns the Postgres URL or the file that a DSN names; both are "" for a log in
// memory. No error repeats the DSN, because it may hold a password.
func split(dsn string) (postgres, file string, err error) {
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		return dsn, "", nil
	}
	if word, _, found := strings.Cut(strings.TrimSpace(dsn), "="); found && slices.Contains(parameters, word) {
		return "", "", &InvalidError{"dsn", "begins with " + word + "=, as a list of Postgres's parameters; give them as postgres://USER@HOST/DATABASE"}
	}
	file, named := strings.CutPrefix(dsn, "sqlite:")
	if scheme, _, found := strings.Cut(file, "://"); found && !strings.Contains(scheme, "/") {
		return "", "", &InvalidError{"dsn", "begins with " + scheme + "://; it must be a file's path, sqlite:PATH or postgres://..."}
	}
	if strings.HasPrefix(file, "postgres:") || strings.HasPrefix(file, "postgresql:") {
		return "", "", &InvalidError{"dsn", "has no // after postgres:"}
	}
	if named && file == "" {
		return "", "", &InvalidError{"dsn", "names no file after sqlite:"}
	}
	if strings.ContainsRune(file, 0) {
		return "", "", &InvalidError{"dsn", "has a zero byte"}
	}
	return "", file, nil
}
