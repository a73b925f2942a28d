package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
)

var (
	// ErrClosed is returned if the log was closed before or during the call.
	ErrClosed = errors.New("event log is closed")

	// ErrNotFound is returned if there is no such session, process or request.
	ErrNotFound = errors.New("not in the event log")

	// ErrExists is returned by Commit if an event has the id of another event, or a
	// request the public id of another request.
	ErrExists = errors.New("already in the event log")

	// ErrAnswered is returned if a request was answered or cancelled before.
	ErrAnswered = errors.New("the request is not open any more")

	// ErrInUse is returned by Open if another server has the database's file open. Stop
	// that server, use another file, or use Postgres, which servers can share.
	ErrInUse = errors.New("another server uses this event log")

	// ErrBusy is returned if another program, which is not a deskhand server, kept the
	// database locked for longer than Config.BusyTimeout, or if a commit to Postgres
	// conflicted with other servers too often. Nothing was committed.
	ErrBusy = errors.New("the event log's database is busy with another program or server")

	// ErrFull is returned if there is no space left for the log. Nothing was committed.
	// Earlier events are intact, and commits succeed again when there is space.
	ErrFull = errors.New("no space left for the event log")

	// ErrUnavailable is returned if Postgres could not be reached. Nothing was
	// committed.
	ErrUnavailable = errors.New("the event log's database is unavailable")

	// ErrUncertain is returned if the connection to Postgres broke during a commit, and
	// the caller's context ended before the outcome was known. TryCommit returns it as an
	// [UncertainError], which can wait for the outcome.
	ErrUncertain = errors.New("whether the event log committed is not known")
)

// InvalidError reports an invalid argument.
type InvalidError struct {
	Field   string // "stream", "session.id", "dsn", ...
	Problem string // the rest of the sentence that begins with Field: "must not be empty"
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// CorruptError reports that a database is damaged, or that its file is missing while
// its -wal file exists. In the second case it wraps [fs.ErrNotExist].
// Nothing is written to such a database.
type CorruptError struct {
	Path string // of the file; empty with Postgres
	Err  error  // the damage
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

// SchemaError reports that a newer version of this program made a database, or that it is
// not an event log.
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
