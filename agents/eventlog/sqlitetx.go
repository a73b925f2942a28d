package eventlog

import (
	"context"
	"database/sql"
	"errors"
)

// sqliteQuerier asks by way of some statements.
type sqliteQuerier struct {
	db *sqliteDB
	by *prepared
}

func (q sqliteQuerier) query(ctx context.Context, s statement, f func(func(...any) error) (bool, error)) error {
	stmt, err := q.by.get(s.sql)
	if err != nil {
		return q.db.explain(err)
	}
	rows, err := stmt.QueryContext(ctx, s.args...)
	if err != nil {
		return q.db.explain(err)
	}
	defer func() { _ = rows.Close() }() // the error is that of rows.Err
	for rows.Next() {
		more, err := f(rows.Scan)
		if err != nil {
			return q.db.explain(err)
		}
		if !more {
			return nil
		}
	}
	return q.db.explain(rows.Err())
}

// sqliteTx is the writer's transaction. Its statements are the writer's own, so
// that no caller's context interrupts what belongs to several. It is one of the
// database only when it has to be: when something is asked of it, or is done
// that has no place in the redo log.
type sqliteTx struct {
	db       *sqliteDB
	begun    bool
	wrote    bool        // something of its own
	taken    *takeover   // from the redo log, when it has begun
	deferred []statement // else
}

func (db *sqliteDB) begin(context.Context) (transaction, error) { return &sqliteTx{db: db}, nil }

// settle gives the database what is staged, and on a full disk the space for it.
// The context bounds the wait for others alone.
func (db *sqliteDB) settle(ctx context.Context) error {
	if !db.staged.dirty.Load() {
		return nil
	}
	for {
		room := db.staged.room()
		if err := db.takeOver(ctx); !errors.Is(err, ErrFull) || !db.staged.release(room) {
			return err
		}
	}
}

func (db *sqliteDB) takeOver(ctx context.Context) error {
	if err := db.using.join(ctx, db.patience); err != nil {
		return err
	}
	if !db.staged.dirty.Load() { // somebody else has
		db.using.give(nil)
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	tx := &sqliteTx{db: db}
	err := tx.start(ctx)
	if err == nil {
		err = tx.commit(ctx)
	}
	if err != nil {
		tx.rollback()
	}
	return err
}

// open begins in earnest, unless it has.
func (tx *sqliteTx) open(ctx context.Context) error {
	if tx.begun {
		return nil
	}
	if err := tx.db.using.take(ctx); err != nil {
		return err
	}
	return tx.start(ctx)
}

// start begins with what was committed before. It is the caller's turn, which
// ends when it cannot.
func (tx *sqliteTx) start(ctx context.Context) error {
	// By hand: what database/sql does not know of, it cannot leave half open
	// when a commit fails.
	if err := tx.do(ctx, "begin immediate"); err != nil {
		tx.db.staged.failed(nil)
		tx.db.using.give(err)
		return err
	}
	tx.begun, tx.taken = true, tx.db.staged.take()
	for _, s := range tx.taken.statements {
		if err := tx.do(ctx, s.sql, s.args...); err != nil {
			return err
		}
	}
	if tx.taken.id == "" {
		return nil
	}
	return tx.do(ctx, "update redo set id = $1", tx.taken.id)
}

func (tx *sqliteTx) do(ctx context.Context, query string, args ...any) error {
	_, err := tx.run(ctx, query, args)
	return err
}

func (tx *sqliteTx) run(ctx context.Context, query string, args []any) (sql.Result, error) {
	stmt, err := tx.db.inTx.get(query)
	if err != nil {
		return nil, tx.db.explain(err)
	}
	result, err := stmt.ExecContext(ctx, args...)
	return result, tx.db.explain(err)
}

func (tx *sqliteTx) query(ctx context.Context, s statement, f func(func(...any) error) (bool, error)) error {
	if err := tx.open(ctx); err != nil {
		return err
	}
	return sqliteQuerier{tx.db, tx.db.inTx}.query(ctx, s, f)
}

func (tx *sqliteTx) exec(ctx context.Context, all []statement) error {
	if err := tx.open(ctx); err != nil {
		return err
	}
	tx.wrote = true
	for _, s := range all {
		if err := tx.do(ctx, s.sql, s.args...); err != nil {
			return err
		}
	}
	return nil
}

func (tx *sqliteTx) changed(ctx context.Context, s statement) (int64, error) {
	if err := tx.open(ctx); err != nil {
		return 0, err
	}
	tx.wrote = true
	result, err := tx.run(ctx, s.sql, s.args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (tx *sqliteTx) position(ctx context.Context, stream string, _ bool) (p position, err error) {
	found, err := one(ctx, tx, statement{"select id from stream where name = $1", []any{stream}}, &p.id)
	if err != nil {
		return p, err
	}
	if !found {
		tx.wrote = true
		_, err := one(ctx, tx, statement{"insert into stream (name) values ($1) returning id", []any{stream}}, &p.id)
		return p, err
	}
	_, err = one(ctx, tx, statement{selectLast, []any{p.id}}, &p.last)
	return p, err
}

// lock has nothing to do: there is one writer.
func (tx *sqliteTx) lock(context.Context, string, string, bool) error { return nil }

// finish has nobody to tell of the streams.
func (tx *sqliteTx) finish(ctx context.Context, all []statement, _ []string) error {
	if !tx.begun {
		tx.deferred = all
		return nil
	}
	return tx.exec(ctx, all)
}

func (tx *sqliteTx) commit(ctx context.Context) error {
	if !tx.begun {
		if len(tx.deferred) == 0 || tx.db.staged.add(tx.deferred) {
			return nil
		}
		if err := tx.exec(ctx, tx.deferred); err != nil {
			return err
		}
	}
	if tx.wrote {
		tx.db.staged.count(tx.taken)
	}
	if tx.taken.last != tx.taken.known {
		if err := tx.do(ctx, "update redo set applied = $1", tx.taken.last); err != nil {
			return err
		}
	}
	if err := tx.do(ctx, "commit"); err != nil {
		return err
	}
	tx.db.staged.done(tx.taken)
	tx.begun = false
	tx.db.using.give(nil)
	return nil
}

// rollback may find that there is nothing to roll back any more: SQLite does it
// by itself when the disk is full.
func (tx *sqliteTx) rollback() {
	if !tx.begun {
		return
	}
	_ = tx.do(context.Background(), "rollback")
	tx.db.staged.failed(tx.taken)
	tx.begun = false
	tx.db.using.give(nil)
}

// sqliteReader asks for what is committed.
type sqliteReader struct{ db *sqliteDB }

func (r sqliteReader) query(ctx context.Context, s statement, f func(func(...any) error) (bool, error)) error {
	if err := r.db.settle(ctx); err != nil {
		return err
	}
	return sqliteQuerier{r.db, r.db.outside}.query(ctx, s, f)
}
