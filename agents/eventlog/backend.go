package eventlog

import (
	"context"
	"errors"
	"fmt"
)

// querier asks a database.
type querier interface {
	// query calls f for each row until it returns false. What scan fills is f's.
	query(ctx context.Context, s statement, f func(scan func(...any) error) (bool, error)) error
}

// transaction is that of the writer: it sees what it did itself.
type transaction interface {
	querier

	// exec runs statements, at once if the database is far away.
	exec(ctx context.Context, all []statement) error

	// changed runs a statement and tells how many rows it changed.
	changed(ctx context.Context, s statement) (int64, error)

	// position finds a stream, makes it if it is not there, and keeps other
	// servers from appending to it until the end. Without wait it returns errTaken
	// when that cannot be had at once.
	position(ctx context.Context, stream string, wait bool) (position, error)

	// lock keeps other servers away from a record until the end. Without wait it
	// returns errTaken when one of them has it.
	lock(ctx context.Context, kind, id string, wait bool) error

	// finish runs the last statements, and lets other servers know, once that
	// is committed, which streams have grown.
	finish(ctx context.Context, all []statement, streams []string) error

	// commit ends it. When that fails in a way that leaves open what happened,
	// it finds out, for which it may take as long as ctx lets it.
	commit(ctx context.Context) error

	rollback()
}

// position is where a stream goes on.
type position struct {
	id   int64 // stream.id
	last int64
}

// backend is a database. It returns errors of this package where one fits.
type backend interface {
	begin(ctx context.Context) (transaction, error)
	reader() querier

	// snapshot calls f with a querier to which nothing changes.
	snapshot(ctx context.Context, f func(querier) error) error

	// shared says that others write as well.
	shared() bool

	// uncertain says that it is being found out how a commit ended.
	uncertain() bool

	// corrupt makes an error of what a row should not be.
	corrupt(error) error

	close() error
}

// one asks for one row, which may not be there.
func one(ctx context.Context, q querier, s statement, dest ...any) (found bool, err error) {
	err = q.query(ctx, s, func(scan func(...any) error) (bool, error) {
		found = true
		return false, scan(dest...)
	})
	return found, err
}

// column returns the values of the only column that a statement selects.
func column[T any](ctx context.Context, q querier, s statement) (all []T, err error) {
	err = q.query(ctx, s, func(scan func(...any) error) (bool, error) {
		var v T
		err := scan(&v)
		all = append(all, v)
		return true, err
	})
	return all, err
}

// retryError says why a transaction that did nothing wrong has to be done
// again: a deadlock with another server's.
type retryError struct{ err error }

func (e *retryError) Error() string { return fmt.Sprintf("done again because of: %v", e.err) }

func (e *retryError) Unwrap() error { return e.err }

// errTaken is that of what another server is about to write. Who has written
// something himself must not wait for that: it may be that the other one waits
// for him, which Postgres notices after a second, and ends one of the two.
var errTaken error = &retryError{errors.New("another server is writing there")}
