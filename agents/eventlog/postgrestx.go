package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresQuerier queries a connection, a transaction or the pool.
type postgresQuerier struct {
	db *postgresDB
	by interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
}

// query tries again if the connection broke while it was idle in the pool, as all
// connections do when Postgres restarts.
func (q postgresQuerier) query(ctx context.Context, s statement, f func(func(...any) error) (bool, error)) error {
	called := false
	err := q.queryOnce(ctx, s, func(scan func(...any) error) (bool, error) {
		called = true
		return f(scan)
	})
	connecting := new(pgconn.ConnectError)
	if q.by != q.db.pool || called || !errors.Is(err, ErrUnavailable) || errors.As(err, &connecting) {
		return err
	}
	q.db.pool.Reset()
	return q.queryOnce(ctx, s, f)
}

func (q postgresQuerier) queryOnce(ctx context.Context, s statement, f func(func(...any) error) (bool, error)) error {
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	rows, err := q.by.Query(bounded, s.sql, s.args...)
	if err != nil {
		return q.explain(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		more, err := f(rows.Scan)
		if err != nil {
			return q.explain(ctx, err)
		}
		if !more {
			return nil
		}
	}
	return q.explain(ctx, rows.Err())
}

// explain returns ErrUnavailable if a reader's connection broke.
func (q postgresQuerier) explain(ctx context.Context, err error) error {
	explained := q.db.explain(err)
	if err == nil || ctx.Err() != nil || explained != err { //nolint:errorlint // the same value
		return explained
	}
	if failure := new(pgconn.PgError); errors.As(err, &failure) {
		return explained
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// postgresTx is the writer's transaction.
type postgresTx struct {
	db     *postgresDB
	conn   *pgx.Conn
	id     string // of the transaction, for status; empty: it has written nothing
	closed bool
}

func (db *postgresDB) begin(ctx context.Context) (transaction, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := db.writer(ctx)
	if err != nil {
		return nil, err
	}
	// Each statement sees all commits before it.
	if _, err := conn.Exec(ctx, "begin isolation level read committed"); err != nil {
		return nil, db.explainWriter(err)
	}
	return &postgresTx{db: db, conn: conn}, nil
}

func (tx *postgresTx) query(ctx context.Context, s statement, f func(func(...any) error) (bool, error)) error {
	return tx.db.explainWriter(postgresQuerier{tx.db, tx.conn}.query(ctx, s, f))
}

// position locks the stream's row. The next transaction that appends to the stream, of any
// server, waits for the end of this one and sees its changes.
func (tx *postgresTx) position(ctx context.Context, stream string, wait bool) (p position, err error) {
	p, _, err = tx.newestProcess(ctx, stream, "", wait)
	return p, err
}

// newestProcess is like position, and also returns the newest process of a server unless
// its name is empty.
func (tx *postgresTx) newestProcess(ctx context.Context, stream, server string, wait bool) (p position, newest []Process, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	how := ""
	if !wait {
		how = " skip locked"
	}
	for range 2 {
		batch := new(pgx.Batch)
		batch.Queue("select id from stream where name = $1 for update"+how, stream).
			QueryRow(func(row pgx.Row) error { return row.Scan(&p.id) })
		batch.Queue("select coalesce(max(seq), 0) from event where stream = (select id from stream where name = $1)", stream).
			QueryRow(func(row pgx.Row) error { return row.Scan(&p.last) })
		if server != "" {
			batch.Queue(selectNewest, server).Query(func(rows pgx.Rows) (err error) {
				newest, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (found Process, err error) {
					return found, row.Scan(processTable.fields(&found)...)
				})
				return err
			})
		}
		err = tx.conn.SendBatch(ctx, batch).Close()
		if !errors.Is(err, pgx.ErrNoRows) {
			return p, newest, tx.db.explainWriter(err)
		}
		if !wait { // another server may be inserting the row
			return p, nil, errTaken
		}
		if _, err := tx.conn.Exec(ctx, "insert into stream (name) values ($1) on conflict (name) do nothing", stream); err != nil {
			return p, nil, tx.db.explainWriter(err)
		}
	}
	return p, nil, &retryError{fmt.Errorf("stream %.100q was deleted meanwhile", stream)}
}

func (tx *postgresTx) lock(ctx context.Context, kind, id string, wait bool) error {
	if !wait {
		var got bool
		const try = "select pg_try_advisory_xact_lock(hashtextextended($1, 0))"
		if _, err := queryRow(ctx, tx, statement{try, []any{tx.db.key(kind, id)}}, &got); err != nil || got {
			return err
		}
		return errTaken
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := tx.conn.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended($1, 0))", tx.db.key(kind, id))
	return tx.db.explainWriter(err)
}

// exec sends the statements, the notifications for other servers, and the query for the
// transaction's id in one round trip.
func (tx *postgresTx) exec(ctx context.Context, all []statement, streams []string) error {
	if len(streams) > maxNotified {
		streams = []string{""}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	batch := new(pgx.Batch)
	for _, s := range all {
		batch.Queue(s.sql, s.args...)
	}
	for _, s := range streams {
		batch.Queue("select pg_notify($1, $2)", tx.db.channel(), tx.db.instance+" "+s)
	}
	batch.Queue("select coalesce(pg_current_xact_id_if_assigned()::text, '')").QueryRow(func(row pgx.Row) error { return row.Scan(&tx.id) })
	return tx.db.explainWriter(tx.conn.SendBatch(ctx, batch).Close())
}

// commit commits. If the connection breaks meanwhile, it asks Postgres for the outcome as
// soon as Postgres can be reached.
func (tx *postgresTx) commit(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	tag, err := tx.conn.Exec(bounded, "commit")
	switch {
	case err == nil && tag.String() == "ROLLBACK":
		return fmt.Errorf("event log: the transaction had failed before")
	case err == nil:
		tx.closed = true
		return nil
	case !tx.conn.IsClosed():
		return tx.db.explainWriter(err)
	case tx.id == "":
		return tx.db.explainWriter(err) // nothing was written
	}
	tx.closed = true
	tx.db.unknown.Store(true)
	defer func() {
		tx.db.unknown.Store(false)
		tx.db.away.end()
	}()
	return tx.awaitOutcome(ctx, err)
}

// awaitOutcome asks Postgres for the outcome of the transaction until it is known or ctx
// ends.
func (tx *postgresTx) awaitOutcome(ctx context.Context, why error) error {
	old := tx.conn.PgConn().PID()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		switch status := tx.status(ctx, old); status {
		case "committed":
			return nil
		case "aborted":
			return fmt.Errorf("%w: %w", ErrUnavailable, why)
		}
		tx.db.away.begin(fmt.Errorf("%w: %w", ErrUnavailable, why))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUncertain, why)
		}
	}
}

// status returns "committed", "aborted", or another text while the outcome is open.
func (tx *postgresTx) status(ctx context.Context, old uint32) (status string) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := tx.db.writer(ctx)
	if err != nil {
		return ""
	}
	// Postgres may not have noticed yet that the old connection's client has disconnected.
	_, err = conn.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and application_name = $2 and pid <> pg_backend_pid()",
		int64(old), "deskhand-"+tx.db.instance)
	if err == nil {
		err = conn.QueryRow(ctx, "select coalesce(pg_xact_status($1::text::xid8), 'aborted')", tx.id).Scan(&status)
	}
	if failure := new(pgconn.PgError); errors.As(err, &failure) && failure.Code == "22023" {
		return "aborted" // the id is later than any of this database
	}
	return status
}

func (tx *postgresTx) rollback() {
	if tx.closed || tx.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	if _, err := tx.conn.Exec(ctx, "rollback"); err != nil {
		_ = tx.conn.Close(ctx)
	}
}
