package eventlog

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// applicationID is in the header of our files: "dkhl".
const applicationID = 0x646b686c

// checkTime bounds how long a file is checked for damage when it is opened.
// Damage that is not found in that time is found when it is read.
const checkTime = 3 * time.Second

// sqliteDB is a file, or memory, with one connection that writes and several that read.
type sqliteDB struct {
	path    string // empty: in memory
	lock    *os.File
	writer  *sql.DB
	conn    *sql.Conn // of writer
	inTx    *prepared // conn's
	readers *sql.DB
	outside *prepared // of readers
	closed  atomic.Bool
}

func openSQLite(ctx context.Context, file string, cfg Config) (*sqliteDB, error) {
	db := &sqliteDB{}
	ok := false
	defer func() {
		if !ok {
			_ = db.close()
		}
	}()
	if file != "" {
		var err error
		if db.path, db.lock, err = lockFile(file); err != nil {
			return nil, err
		}
		if err = reportDamage(db.path, cfg.Logger); err != nil {
			return nil, err
		}
	}
	name := sqliteName(db.path, cfg)
	writer, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}
	db.writer = sql.OpenDB(writer)
	db.writer.SetMaxOpenConns(1)
	if db.conn, err = db.writer.Conn(ctx); err != nil {
		return nil, db.explain(err)
	}
	db.inTx = newPrepared(db.conn)
	if err := db.prepare(ctx, cfg); err != nil {
		return nil, db.explain(err)
	}
	reader, err := sqlite.NewConnector(name + "&_pragma=query_only(1)")
	if err != nil {
		return nil, err
	}
	db.readers = sql.OpenDB(reader)
	db.readers.SetMaxOpenConns(8)
	db.readers.SetMaxIdleConns(2)
	db.readers.SetConnMaxIdleTime(time.Minute)
	db.outside = newPrepared(db.readers)
	ok = true
	return db, nil
}

// sqliteName returns the data source name for the driver.
func sqliteName(path string, cfg Config) string {
	if path == "" {
		// Shared by the connections that name it, until the last one is closed.
		return "file:/" + rand.Text() + "?vfs=memdb&_pragma=busy_timeout(60000)"
	}
	synchronous := "FULL"
	if cfg.Synchronous == Normal {
		synchronous = "NORMAL"
	}
	// A commit writes whole pages, and most rows are small.
	return fmt.Sprintf("file:%s?_pragma=page_size(2048)&_pragma=busy_timeout(%d)&_pragma=synchronous(%s)&_pragma=journal_size_limit(67108864)",
		(&url.URL{Path: path}).EscapedPath(), max(cfg.BusyTimeout.Milliseconds(), 1), synchronous)
}

// prepare checks the file and brings its schema up to date.
func (db *sqliteDB) prepare(ctx context.Context, cfg Config) error {
	m := sqliteMigrator{db.conn}
	version, err := m.version(ctx)
	if err != nil {
		return err
	}
	if version > 0 && db.path != "" {
		if err := db.check(ctx); err != nil {
			return err
		}
	}
	all, err := migrationsFor("sqlite")
	if err != nil {
		return err
	}
	if version >= 0 && version <= len(all) {
		if err := db.journal(ctx); err != nil {
			return err
		}
	}
	if version == redoVersion { // before the migration, which changes the tables
		if err := db.takeOverRedo(ctx, cfg.Logger); err != nil {
			return err
		}
	}
	if version != len(all) {
		if err := db.migrate(ctx, all, cmp.Or(db.path, "the database in memory")); err != nil {
			return err
		}
	}
	if version >= redoVersion && db.path != "" {
		if err := os.Remove(db.path + redoSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (db *sqliteDB) migrate(ctx context.Context, all []string, name string) error {
	m := sqliteMigrator{db.conn}
	if err := m.run(ctx, "begin immediate"); err != nil {
		return err
	}
	err := migrate(ctx, m, all, name)
	if err == nil {
		err = m.run(ctx, "commit")
	}
	if err != nil {
		_ = m.run(ctx, "rollback") // fails if SQLite has rolled back
	}
	return err
}

// journal turns the write-ahead log on. Then readers and the writer do not wait for each
// other.
func (db *sqliteDB) journal(ctx context.Context) error {
	if db.path == "" {
		return nil
	}
	var mode string
	err := db.conn.QueryRowContext(ctx, "pragma journal_mode = wal").Scan(&mode)
	if err == nil && mode != "wal" {
		err = fmt.Errorf("event log %s: its file system cannot have a write-ahead log; name a file on a local disk", db.path)
	}
	return err
}

// check looks for damage.
func (db *sqliteDB) check(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var result string
	err := db.conn.QueryRowContext(bounded, "pragma quick_check(1)").Scan(&result)
	switch {
	case bounded.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case result != "ok":
		return &CorruptError{db.path, errors.New(strings.TrimSpace(strings.ReplaceAll(result, "\n", " ")))}
	}
	return nil
}

func (db *sqliteDB) close() error {
	var errs []error
	db.closed.Store(true)
	if db.outside != nil {
		db.outside.close()
	}
	if db.readers != nil {
		errs = append(errs, db.readers.Close())
	}
	if db.conn != nil {
		if db.inTx != nil {
			db.inTx.close()
		}
		errs = append(errs, db.conn.Close())
	}
	if db.writer != nil {
		errs = append(errs, db.writer.Close())
	}
	if db.lock != nil {
		errs = append(errs, unlockFile(db.lock))
	}
	return errors.Join(errs...)
}

func (db *sqliteDB) shared() bool { return false }

func (db *sqliteDB) uncertain() bool { return false }

func (db *sqliteDB) corrupt(err error) error { return &CorruptError{db.path, err} }

func (db *sqliteDB) reader() querier { return sqliteQuerier{db, db.outside} }

// explain wraps errors of the database in errors of this package.
func (db *sqliteDB) explain(err error) error {
	if err != nil && db.closed.Load() {
		return ErrClosed // any error can follow from that
	}
	failure := new(sqlite.Error)
	if !errors.As(err, &failure) {
		return err
	}
	path := db.path
	switch failure.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &CorruptError{path, err}
	case sqlite3.SQLITE_CONSTRAINT:
		return fmt.Errorf("%w: %w", ErrExists, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %s: %w", ErrFull, path, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%w: %s: %w", ErrBusy, path, err)
	case sqlite3.SQLITE_IOERR:
		// SQLite also reports this error if the disk is too full for the -shm file.
		if isFull(filepath.Dir(path)) {
			return fmt.Errorf("%w: %s: %w", ErrFull, path, err)
		}
	}
	return fmt.Errorf("event log %s: %w", path, err)
}

// sqliteMigrator is a connection.
type sqliteMigrator struct{ conn *sql.Conn }

func (m sqliteMigrator) version(ctx context.Context) (version int, err error) {
	var id, tables int
	if err := m.conn.QueryRowContext(ctx, "pragma application_id").Scan(&id); err != nil {
		return 0, err
	}
	if err := m.conn.QueryRowContext(ctx, "select count(*) from sqlite_master").Scan(&tables); err != nil {
		return 0, err
	}
	switch {
	case id == 0 && tables == 0:
		return 0, nil
	case id != applicationID:
		return -1, nil
	}
	err = m.conn.QueryRowContext(ctx, "select version from schema_version").Scan(&version)
	return version, err
}

func (m sqliteMigrator) run(ctx context.Context, script string) error {
	if strings.HasPrefix(script, "create table schema_version") {
		script = "pragma application_id = " + strconv.Itoa(applicationID) + ";" + script
	}
	_, err := m.conn.ExecContext(ctx, script)
	return err
}

// prepared caches the prepared statements of a connection or a pool. The cache is bounded by
// the number of statements in this package.
type prepared struct {
	on preparer

	mu  sync.Mutex
	all map[string]*sql.Stmt
}

// preparer is a connection or a pool.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func newPrepared(on preparer) *prepared {
	return &prepared{on: on, all: map[string]*sql.Stmt{}}
}

func (p *prepared) get(query string) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.all[query]; s != nil {
		return s, nil
	}
	if p.all == nil {
		return nil, ErrClosed
	}
	// Later callers use the statement, so it must not end with this caller's context.
	s, err := p.on.PrepareContext(context.Background(), positional(query))
	if err == nil {
		p.all[query] = s
	}
	return s, err
}

func (p *prepared) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.all {
		_ = s.Close()
	}
	p.all = nil
}

// positional replaces $1, $2... by ? if they have that order, because the driver searches
// for names one by one.
func positional(query string) string {
	var b strings.Builder
	for n, rest := 1, query; ; n++ {
		before, after, found := strings.Cut(rest, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		number := strconv.Itoa(n)
		tail, ok := strings.CutPrefix(after, number)
		if !ok || tail != "" && tail[0] >= '0' && tail[0] <= '9' {
			return query
		}
		b.WriteByte('?')
		rest = tail
	}
}
