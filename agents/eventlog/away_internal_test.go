package eventlog

import (
	"context"
	"errors"
	"testing"
)

// leaving is a shared database that is unavailable for a while.
type leaving struct {
	backend

	log     *Log
	left    int   // times that it is still away
	visible error // why the database is away, when a commit is visible
}

func (l *leaving) shared() bool { return true }

func (l *leaving) begin(ctx context.Context) (transaction, error) {
	if l.left > 0 {
		l.left--
		return nil, ErrUnavailable
	}
	tx, err := l.backend.begin(ctx)
	return returned{tx, l}, err
}

type returned struct {
	transaction

	db *leaving
}

func (r returned) commit(ctx context.Context) error {
	err := r.transaction.commit(ctx)
	r.db.visible = r.db.log.away.now.Load().why()
	return err
}

// TestBackBeforeItIsSeen: when the first commit after an absence of the database is visible,
// the absence has ended.
func TestBackBeforeItIsSeen(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	db := &leaving{backend: l.db, log: l, left: 3}
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
