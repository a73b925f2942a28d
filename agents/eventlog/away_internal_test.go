package eventlog

import (
	"context"
	"errors"
	"testing"
)

// unavailableDB is a shared database that cannot be reached at first.
type unavailableDB struct {
	backend

	log      *Log
	failures int   // how many calls of begin still fail
	visible  error // the absence that a caller sees when the commit is visible
}

func (l *unavailableDB) shared() bool { return true }

func (l *unavailableDB) begin(ctx context.Context) (transaction, error) {
	if l.failures > 0 {
		l.failures--
		return nil, ErrUnavailable
	}
	tx, err := l.backend.begin(ctx)
	return observedTx{tx, l}, err
}

type observedTx struct {
	transaction

	db *unavailableDB
}

func (r observedTx) commit(ctx context.Context) error {
	err := r.transaction.commit(ctx)
	r.db.visible = r.db.log.away.now.Load().why()
	return err
}

// TestAbsenceEndsBeforeCommitIsVisible: when the first commit after an absence of the database is visible,
// the absence has ended.
func TestAbsenceEndsBeforeCommitIsVisible(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	db := &unavailableDB{backend: l.db, log: l, failures: 3}
	l.db = db
	if err := l.Commit(t.Context(), func(tx *Tx) error {
		_, err := tx.Append(Event{Stream: "s", Payload: []byte("x")})
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(db.visible, l.Close()); err != nil {
		t.Error(err)
	}
}
