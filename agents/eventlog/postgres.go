package eventlog

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// defaultSchema is the schema of the tables. The DSN's search_path names another one.
	defaultSchema = "deskhand"

	// answerTime bounds a statement. After it, Postgres counts as unavailable.
	answerTime = 30 * time.Second
)

// postgresDB is a database that other servers may use as well: one connection
// that writes, one that listens, and a pool that reads.
type postgresDB struct {
	config   *pgx.ConnConfig
	schema   string
	instance string
	pool     *pgxpool.Pool
	conn     *pgx.Conn   // the writer's; nil: to be made
	listener *pgx.Conn   // gets notifications; nil: to be made
	outage   outage      // of listener
	away     *absences   // set by the writer
	unknown  atomic.Bool // the outcome of a commit is not known yet
	closed   atomic.Bool
}

func openPostgres(ctx context.Context, dsn, instance string, cfg Config) (*postgresDB, error) {
	pool, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, &InvalidError{"dsn", fmt.Sprintf("is no Postgres URL: %v", err)} // the library leaves passwords out
	}
	db := &postgresDB{config: pool.ConnConfig, instance: instance}
	params := db.config.RuntimeParams
	db.schema, _, _ = strings.Cut(params["search_path"], ",")
	db.schema = strings.Trim(strings.TrimSpace(db.schema), `"`)
	if db.schema == "" {
		db.schema = defaultSchema
	}
	params["search_path"] = pgx.Identifier{db.schema}.Sanitize()
	params["application_name"] = "deskhand-" + instance
	params["lock_timeout"] = strconv.FormatInt(max(cfg.BusyTimeout.Milliseconds(), 1), 10)
	params["idle_in_transaction_session_timeout"] = strconv.FormatInt(2*answerTime.Milliseconds(), 10)
	if cfg.Synchronous == Normal {
		params["synchronous_commit"] = "off"
	}
	if db.config.ConnectTimeout == 0 {
		db.config.ConnectTimeout = 10 * time.Second
	}
	pool.MaxConnIdleTime = time.Minute
	if query, err := url.Parse(dsn); err == nil && !query.Query().Has("pool_max_conns") {
		pool.MaxConns = 8
	}
	if db.pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return nil, db.explain(err)
	}
	if err := db.prepare(ctx); err != nil {
		_ = db.close()
		return nil, err
	}
	return db, nil
}

// prepare connects, and brings the schema up to date.
func (db *postgresDB) prepare(ctx context.Context) error {
	all, err := migrationsFor("postgres")
	if err != nil {
		return err
	}
	err = db.inTransaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended($1, 0))", db.key("schema", "")); err != nil {
			return err
		}
		name := fmt.Sprintf("schema %s of database %s", db.schema, db.config.Database)
		return migrate(ctx, postgresMigrator{tx, db.schema}, all, name)
	})
	if err != nil {
		return err
	}
	return db.connectListener(ctx)
}

// inTransaction calls f in a transaction of the writer's connection.
func (db *postgresDB) inTransaction(ctx context.Context, f func(pgx.Tx) error) error {
	conn, err := db.writer(ctx)
	if err != nil {
		return err
	}
	return db.explain(pgx.BeginFunc(ctx, conn, f))
}

// writer returns the connection that writes. It connects again if that broke.
func (db *postgresDB) writer(ctx context.Context) (*pgx.Conn, error) {
	if db.conn != nil && !db.conn.IsClosed() {
		return db.conn, nil
	}
	conn, err := pgx.ConnectConfig(ctx, db.config)
	if err != nil {
		return nil, db.explain(err)
	}
	db.conn = conn
	return conn, nil
}

func (db *postgresDB) close() error {
	db.closed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, conn := range []*pgx.Conn{db.conn, db.listener} {
		if conn != nil {
			_ = conn.Close(ctx) // sends a message, which may fail
		}
	}
	db.pool.Close()
	return nil
}

func (db *postgresDB) shared() bool { return true }

func (db *postgresDB) uncertain() bool { return db.unknown.Load() }

func (db *postgresDB) corrupt(err error) error { return &CorruptError{Err: err} }

func (db *postgresDB) reader() querier { return postgresQuerier{db, db.pool} }

// key returns the name of an advisory lock. Such names are shared by all schemas of a
// database.
func (db *postgresDB) key(kind, id string) string {
	return "deskhand " + db.schema + " " + kind + " " + id
}

// explain wraps errors of the database in errors of this package.
func (db *postgresDB) explain(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUncertain) {
		return err
	}
	if db.closed.Load() {
		return ErrClosed // any error can follow from that
	}
	failure, connecting := new(pgconn.PgError), new(pgconn.ConnectError)
	switch {
	case errors.As(err, &failure):
		return db.explainCode(failure.Code, err)
	case errors.As(err, &connecting):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// explainCode explains an error code (PostgreSQL documentation, appendix A, "PostgreSQL
// Error Codes").
func (db *postgresDB) explainCode(code string, err error) error {
	switch code {
	case "40001", "40P01", // serialization failure, deadlock
		"23503": // a blob was deleted by one server when another began to need it
		return &retryError{err}
	case "23505": // unique violation
		return fmt.Errorf("%w: %w", ErrExists, err)
	case "55P03": // lock not available
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case "53100": // disk full
		return fmt.Errorf("%w: %w", ErrFull, err)
	case "XX001", "XX002": // damaged data, damaged index
		return &CorruptError{Err: err}
	case "25006", // read-only: another server is the primary now
		"25P03": // the transaction was idle for too long
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch code[:2] {
	case "08", "53", "57": // connection, resources, an operator's intervention
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("event log: %w", err)
}

// explainWriter explains an error of the writer's connection.
func (db *postgresDB) explainWriter(err error) error {
	explained := db.explain(err)
	if err == nil || db.conn == nil || !db.conn.IsClosed() || errors.Is(explained, ErrUnavailable) {
		return explained
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// postgresMigrator is a transaction in the schema.
type postgresMigrator struct {
	tx     pgx.Tx
	schema string
}

func (m postgresMigrator) version(ctx context.Context) (version int, err error) {
	var tables, ours int
	err = m.tx.QueryRow(ctx, "select count(*), count(*) filter (where tablename = 'schema_version') from pg_tables where schemaname = $1",
		m.schema).Scan(&tables, &ours)
	switch {
	case err != nil:
		return 0, err
	case tables == 0:
		return 0, nil
	case ours == 0:
		return -1, nil
	}
	err = m.tx.QueryRow(ctx, "select version from schema_version").Scan(&version)
	return version, err
}

func (m postgresMigrator) run(ctx context.Context, script string) error {
	if strings.HasPrefix(script, "create table schema_version") {
		if _, err := m.tx.Exec(ctx, "create schema if not exists "+pgx.Identifier{m.schema}.Sanitize()); err != nil {
			return err
		}
	}
	// The simple protocol takes several statements.
	_, err := m.tx.Conn().PgConn().Exec(ctx, script).ReadAll()
	return err
}
