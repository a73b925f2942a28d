package eventlog

import (
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Mode says what a commit waits for.
type Mode int

const (
	// Full waits until the disk has the events: they survive the loss of power.
	Full Mode = iota

	// Normal waits until the system has them: they survive kill -9 of the
	// server, but the last ones may be lost with the machine. Several times
	// faster with one writer. With Postgres, synchronous_commit=off, which
	// survives kill -9 of this server but not that of Postgres.
	Normal
)

// Config says where a log is and how it is kept.
type Config struct {
	// DSN is the path of a file for SQLite, which may begin with "sqlite:", or
	// the "postgres://" URL of a database that several servers may share. The
	// file's folder is made when it is missing. Empty: in memory, gone with
	// Close.
	DSN string

	// Synchronous says what a commit waits for. Zero: [Full].
	Synchronous Mode

	// Retention says what is dropped. Zero: nothing, ever.
	Retention Retention

	// BusyTimeout is how long a commit waits for another program that has
	// locked the database, before it fails with [ErrBusy]. Zero: 5 s.
	BusyTimeout time.Duration

	// Memory is about how many bytes of the newest events are kept in memory,
	// of all streams together, for those who follow them. Zero: 64 MiB.
	Memory int

	// Grown is called with each stream that this opening of the log has appended to,
	// the position of its last event before, and the position now. All commits wait for
	// it: it must be quick and must not call the log. Nil: none.
	Grown func(stream string, before, last int64)

	// Logger gets what no caller is told: a lost connection, a retention that failed.
	// Nil: none.
	Logger *slog.Logger
}

// Retention bounds what is kept of each stream. Its oldest events are dropped
// first and the newest one never, so that its sequence goes on. Zero fields do
// not bound.
//
// With any bound, the record of a process, and its requests, go as well when no
// session has an event of it any more, and its server is no more (see
// [ReasonDeleted]) or has had another process since. Sessions stay.
type Retention struct {
	Events int           // so many
	Bytes  int64         // so many, as the payloads came
	Age    time.Duration // those that are younger

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

// Secrets names the environment variables that have a password for what dsn
// names: PGPASSWORD and PGSSLPASSWORD of a Postgres (PostgreSQL documentation,
// libpq, Environment Variables), none of a file, or of what [Open] refuses.
// Children should not get them: with them they could write to the log.
func Secrets(dsn string) []string {
	if postgres, _, err := split(dsn); err != nil || postgres == "" {
		return nil
	}
	return []string{"PGPASSWORD", "PGSSLPASSWORD"}
}

// parameters are what Postgres's other kind of DSN begins with, which would make
// a file whose name has the password.
var parameters = []string{"host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service", "sslmode", "application_name"}

// split tells what a DSN names: a Postgres URL, or a file, "" being none. It
// may hold a password, so that no error repeats it.
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
