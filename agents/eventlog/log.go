package eventlog

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"sync/atomic"
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
	keeper   *keeper // nil: everything is kept

	writing sync.Mutex      // held by the only one who appends to the database
	queued  atomic.Int32    // jobs that wait for the writer, or are its
	running context.Context //nolint:containedctx // what commits are done with, until the database is closed

	jobs    chan *job
	closing chan struct{} // closed when no job is taken any more
	written chan struct{} // closed when the last one is done
	away    absences      // of the database
	once    sync.Once
	tasks   sync.WaitGroup // the writer, and what else runs
	stop    context.CancelFunc
	err     error // of closing the database
}

// Open opens the log that cfg.DSN names, and makes it if there is none. The
// context bounds the opening alone.
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
	if l.codec, err = newCodec(); err != nil {
		return nil, err
	}
	l.streams = newStreams(cfg.Memory)
	l.away.back()
	running, stop := context.WithCancel(context.Background())
	l.stop, l.running = stop, running
	if err := l.connect(ctx, running, dsn, file); err != nil {
		stop()
		l.codec.close()
		return nil, err
	}
	if !cfg.Retention.off() {
		l.keeper = &keeper{log: l, bounds: cfg.Retention, grown: map[string]bool{}}
		l.tasks.Go(func() { l.keeper.run(running) })
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

// Shared tells whether other programs may have the log open at the same time,
// which is so with Postgres.
func (l *Log) Shared() bool { return l.db.shared() }

// Secrets is [Secrets] of what the log is kept in.
func (l *Log) Secrets() []string { return Secrets(l.cfg.DSN) }

// Instance names this opening of the log among the servers that share it.
func (l *Log) Instance() string { return l.instance }

// Close commits what waits to be committed, and closes the log. Whoever waits
// for events gets [ErrClosed].
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

// open says if the log is closed. Who passes it just before that gets the
// database's word for it.
func (l *Log) open() error {
	select {
	case <-l.closing:
		return ErrClosed
	default:
		return nil
	}
}
