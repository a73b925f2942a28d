package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
)

var (
	// ErrClosed says that the log was closed before or during the call.
	ErrClosed = errors.New("event log is closed")

	// ErrNotFound says that there is no such session, process or request.
	ErrNotFound = errors.New("not in the event log")

	// ErrExists says that an event or the public id of a request would be there
	// twice.
	ErrExists = errors.New("already in the event log")

	// ErrAnswered says that a request was answered or cancelled before.
	ErrAnswered = errors.New("the request is not open any more")

	// ErrInUse says that another server has the database's file open. Stop that
	// one, give this one another file, or use Postgres, which servers can share.
	ErrInUse = errors.New("another server uses this event log")

	// ErrBusy says that another program, which is not a deskhand server, kept the database
	// locked for longer than Config.BusyTimeout. Nothing was committed.
	ErrBusy = errors.New("the event log's database is locked by another program")

	// ErrFull says that there is no space left for the log. Nothing was
	// committed, what was there is intact, and commits succeed again once there
	// is space.
	ErrFull = errors.New("no space left for the event log")

	// ErrUnavailable says that Postgres could not be reached. Nothing was
	// committed.
	ErrUnavailable = errors.New("the event log's database is unavailable")

	// ErrUncertain says that the connection broke while a commit was under way
	// and that the caller did not wait until it was known how that ended. See
	// [UncertainError], too.
	ErrUncertain = errors.New("whether the event log committed is not known")
)

// InvalidError says what is wrong with an argument.
type InvalidError struct {
	Field   string // "stream", "session.id", "dsn", ...
	Problem string // what follows its name in a sentence: "must not be empty"
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// CorruptError says that a database is damaged, or that its file is missing while
// its -wal file exists. In the second case it wraps [fs.ErrNotExist].
// Nothing is written to such a database.
type CorruptError struct {
	Path string // of the file; empty with Postgres
	Err  error  // what is wrong
}

// Error implements error.
func (e *CorruptError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("the event log is damaged: %v", e.Err)
	}
	if errors.Is(e.Err, fs.ErrNotExist) {
		return fmt.Sprintf("the event log %s: %v; put it back, or move its -wal and -shm files away to begin a new one", e.Path, e.Err)
	}
	return fmt.Sprintf("the event log %s is damaged: %v; move it and its -wal and -shm files away to begin a new one, "+
		"or put a copy back; `sqlite3 %s .recover` prints what can still be read", e.Path, e.Err, e.Path)
}

// Unwrap returns Err.
func (e *CorruptError) Unwrap() error { return e.Err }

// SchemaError says that neither this version nor an older one made a database.
type SchemaError struct {
	Database string // without its password
	Version  int    // of the schema; 0: it is not an event log
	Known    int    // the newest version that this program knows
}

// Error implements error.
func (e *SchemaError) Error() string {
	if e.Version == 0 {
		return e.Database + " holds something else than an event log; name another file or database"
	}
	return fmt.Sprintf("%s has version %d of the event log's schema and this program knows up to %d: "+
		"use the newer program again, or another file or database", e.Database, e.Version, e.Known)
}
