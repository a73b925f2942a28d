package eventlog

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"
)

// closeTime is how long Close waits for a database that does not answer.
const closeTime = 10 * time.Second

// Log is an open event log.
type Log struct {
	cfg      Config
	db       backend
	codec    *codec
	streams  *streams
	instance string
	retainer *retainer // nil: everything is kept

	jobs    chan *job
	closing chan struct{} // closed when new jobs are rejected
	written chan struct{} // closed when the last job is done
	away    absences      // of the database
	once    sync.Once
	tasks   sync.WaitGroup // the goroutines of the log
	stop    context.CancelFunc
	err     error // of closing the database
}

// Open opens the log that cfg.DSN names, and makes it if there is none. It blocks until
// the schema is current and a file is checked for damage. ctx bounds the call only.
//
// It returns errors of the system, [ErrInUse], [ErrBusy], [ErrUnavailable],
// [*InvalidError], [*CorruptError] and [*SchemaError].
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	dsn, file, err := split(cfg.DSN)
	if err != nil {
		return nil, err
	}
	l := &Log{
		cfg:      cfg,
		instance: strings.ToLower(rand.Text()),
		jobs:     make(chan *job, maxGroup),
		closing:  make(chan struct{}),
		written:  make(chan struct{}),
	}
	if l.codec, err = newCodec(dsn == ""); err != nil {
		return nil, err
	}
	l.streams = newStreams(cfg.Memory)
	l.away.end()
	running, stop := context.WithCancel(context.Background())
	l.stop = stop
	if err := l.connect(ctx, running, dsn, file); err != nil {
		stop()
		l.codec.close()
		return nil, err
	}
	if !cfg.Retention.off() {
		l.retainer = &retainer{log: l, bounds: cfg.Retention, appended: map[string]bool{}}
		l.tasks.Go(func() { l.retainer.run(running) })
	}
	l.tasks.Go(func() { l.write(running) })
	return l, nil
}

// connect opens the database.
func (l *Log) connect(ctx, running context.Context, dsn, file string) error {
	if dsn == "" {
		db, err := openSQLite(ctx, file, l.cfg)
		if err == nil {
			l.db = db
		}
		return err
	}
	db, err := openPostgres(ctx, dsn, l.instance, l.cfg)
	if err == nil {
		l.db, db.away = db, &l.away
		l.tasks.Go(func() { l.listen(running, db) })
	}
	return err
}

// Shared reports whether other programs may have the log open at the same time, which is
// the case with Postgres.
func (l *Log) Shared() bool { return l.db.shared() }

// Secrets returns [Secrets] of Config.DSN.
func (l *Log) Secrets() []string { return Secrets(l.cfg.DSN) }

// Instance returns the id of this opening of the log. It is unique among the servers that
// share the log.
func (l *Log) Instance() string { return l.instance }

// Close rejects new commits with [ErrClosed], completes the waiting ones, and closes the
// database. It waits for ten seconds for a database that does not answer, and not at all
// for a Postgres that is known to be away: those commits fail with [ErrUnavailable]. A
// [Cursor.Next] that waits returns [ErrClosed]. Later calls return the same error.
func (l *Log) Close() error {
	l.once.Do(func() {
		close(l.closing)
		impatient := time.AfterFunc(closeTime, l.stop)
		<-l.written
		impatient.Stop()
		l.stop()
		l.tasks.Wait()
		l.streams.close()
		l.err = l.db.close()
		l.codec.close()
	})
	return l.err
}

// open returns ErrClosed if the log is closed. A caller that passes it just before that
// gets an error of the database.
func (l *Log) open() error {
	select {
	case <-l.closing:
		return ErrClosed
	default:
		return nil
	}
}
