package eventlog

import (
	"context"
	"errors"
	"fmt"
)

// querier queries a database.
type querier interface {
	// query calls f for each row until it returns false. f owns the values that scan stores.
	query(ctx context.Context, s statement, f func(scan func(...any) error) (bool, error)) error
}

// transaction is a transaction of the writer. It sees its own changes.
type transaction interface {
	querier

	// exec runs statements, in one round trip with Postgres. When they are committed, other
	// servers are notified of the streams. It must be called before commit.
	exec(ctx context.Context, all []statement, streams []string) error

	// position finds a stream, makes it if it does not exist, and keeps other
	// servers from appending to it until the end of the transaction. Without wait it
	// returns errTaken if another server has the stream.
	position(ctx context.Context, stream string, wait bool) (position, error)

	// lock keeps other servers away from a record until the end of the transaction.
	// Without wait it returns errTaken if another server has the record.
	lock(ctx context.Context, kind, id string, wait bool) error

	// commit commits the transaction. If the connection breaks meanwhile, it finds
	// out whether the transaction was committed, and tries that until ctx ends.
	commit(ctx context.Context) error

	rollback()
}

// position is the end of a stream.
type position struct {
	id   int64 // stream.id
	last int64
}

// backend is a database. It returns errors of this package where one fits.
type backend interface {
	begin(ctx context.Context) (transaction, error)
	reader() querier

	// shared reports whether other programs write as well.
	shared() bool

	// uncertain reports whether the outcome of a commit is not known yet.
	uncertain() bool

	// corrupt returns the error for an invalid row.
	corrupt(error) error

	close() error
}

// queryRow reads one row. found is false if there is none.
func queryRow(ctx context.Context, q querier, s statement, dest ...any) (found bool, err error) {
	err = q.query(ctx, s, func(scan func(...any) error) (bool, error) {
		found = true
		return false, scan(dest...)
	})
	return found, err
}

// queryColumn returns the values of the only column that a statement selects.
func queryColumn[T any](ctx context.Context, q querier, s statement) (all []T, err error) {
	err = q.query(ctx, s, func(scan func(...any) error) (bool, error) {
		var v T
		err := scan(&v)
		all = append(all, v)
		return true, err
	})
	return all, err
}

// retryError reports a conflict with another server's transaction, such as a deadlock.
// The transaction is to be tried again.
type retryError struct{ err error }

func (e *retryError) Error() string { return fmt.Sprintf("transaction conflict: %v", e.err) }

func (e *retryError) Unwrap() error { return e.err }

// errTaken reports that another server is about to write a stream or record. A transaction
// that has written must not wait for it: the other server may wait for this transaction.
// Postgres would notice that deadlock after a second and end one of the two.
var errTaken error = &retryError{errors.New("another server is writing there")}
