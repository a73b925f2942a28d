package eventlog

import (
	"context"
	"database/sql"
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
// that no caller's context interrupts what belongs to several.
type sqliteTx struct {
	sqliteQuerier
}

func (db *sqliteDB) begin(ctx context.Context) (transaction, error) {
	tx := &sqliteTx{sqliteQuerier{db, db.inTx}}
	// By hand: what database/sql does not know of, it cannot leave half open
	// when a commit fails.
	if err := tx.do(ctx, "begin immediate"); err != nil {
		return nil, err
	}
	return tx, nil
}

func (tx *sqliteTx) do(ctx context.Context, query string, args ...any) error {
	_, err := tx.run(ctx, query, args)
	return err
}

func (tx *sqliteTx) run(ctx context.Context, query string, args []any) (sql.Result, error) {
	stmt, err := tx.by.get(query)
	if err != nil {
		return nil, tx.db.explain(err)
	}
	result, err := stmt.ExecContext(ctx, args...)
	return result, tx.db.explain(err)
}

func (tx *sqliteTx) exec(ctx context.Context, all []statement) error {
	for _, s := range all {
		if err := tx.do(ctx, s.sql, s.args...); err != nil {
			return err
		}
	}
	return nil
}

func (tx *sqliteTx) changed(ctx context.Context, s statement) (int64, error) {
	result, err := tx.run(ctx, s.sql, s.args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (tx *sqliteTx) position(ctx context.Context, stream string) (p position, err error) {
	found, err := one(ctx, tx, statement{"select id from stream where name = $1", []any{stream}}, &p.id)
	if err != nil {
		return p, err
	}
	if !found {
		_, err := one(ctx, tx, statement{"insert into stream (name) values ($1) returning id", []any{stream}}, &p.id)
		return p, err
	}
	_, err = one(ctx, tx, statement{selectLast, []any{p.id}}, &p.last)
	return p, err
}

// lock has nothing to do: there is one writer.
func (tx *sqliteTx) lock(context.Context, string, string) error { return nil }

// finish has nobody to tell of the streams.
func (tx *sqliteTx) finish(ctx context.Context, all []statement, _ []string) error {
	return tx.exec(ctx, all)
}

func (tx *sqliteTx) commit(ctx context.Context) error { return tx.do(ctx, "commit") }

// rollback may find that there is nothing to roll back any more: SQLite does it
// by itself when the disk is full.
func (tx *sqliteTx) rollback() { _ = tx.do(context.Background(), "rollback") }
