package eventlog

import "context"

// sqliteQuerier queries with prepared statements.
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
	defer func() { _ = rows.Close() }() // rows.Err returns the error
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

// sqliteTx is a transaction on the writer's connection. Its statements use the
// writer's context, so that a caller's context cannot interrupt what several
// callers commit together.
type sqliteTx struct{ db *sqliteDB }

func (db *sqliteDB) begin(ctx context.Context) (transaction, error) {
	tx := &sqliteTx{db}
	// The driver's own transactions can stay half open when a commit fails.
	return tx, tx.do(ctx, "begin immediate")
}

func (tx *sqliteTx) do(ctx context.Context, query string, args ...any) error {
	stmt, err := tx.db.inTx.get(query)
	if err == nil {
		_, err = stmt.ExecContext(ctx, args...)
	}
	return tx.db.explain(err)
}

func (tx *sqliteTx) query(ctx context.Context, s statement, f func(func(...any) error) (bool, error)) error {
	return sqliteQuerier{tx.db, tx.db.inTx}.query(ctx, s, f)
}

// exec does not announce the streams: no other server reads the file.
func (tx *sqliteTx) exec(ctx context.Context, all []statement, _ []string) error {
	for _, s := range all {
		if err := tx.do(ctx, s.sql, s.args...); err != nil {
			return err
		}
	}
	return nil
}

func (tx *sqliteTx) position(ctx context.Context, stream string, _ bool) (p position, err error) {
	found, err := queryRow(ctx, tx, statement{"select id from stream where name = $1", []any{stream}}, &p.id)
	if err != nil {
		return p, err
	}
	if !found {
		_, err := queryRow(ctx, tx, statement{"insert into stream (name) values ($1) returning id", []any{stream}}, &p.id)
		return p, err
	}
	_, err = queryRow(ctx, tx, statement{selectLast, []any{p.id}}, &p.last)
	return p, err
}

// lock has nothing to do: there is one writer.
func (tx *sqliteTx) lock(context.Context, string, string, bool) error { return nil }

func (tx *sqliteTx) commit(ctx context.Context) error { return tx.do(ctx, "commit") }

// rollback ignores the error of a transaction that SQLite has rolled back already,
// as it does when the disk is full.
func (tx *sqliteTx) rollback() { _ = tx.do(context.Background(), "rollback") }
