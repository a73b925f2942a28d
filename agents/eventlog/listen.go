package eventlog

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// The servers that share a database notify each other of streams with new events. A
// notification only makes a server read the stream. A server that may have missed
// notifications reads all its streams when it has connected again.

const (
	// pingAfter is the time without a notification after which the listener's connection is
	// checked.
	pingAfter = 30 * time.Second

	// maxNotified is how many streams a transaction announces by name. If there are
	// more, the other servers read all their streams.
	maxNotified = 64
)

// channel returns the name of the channel for notifications between servers of a schema.
func (db *postgresDB) channel() string {
	name := "deskhand_" + db.schema
	return name[:min(len(name), 63)]
}

// connectListener makes the listener's connection. Its lock shows the other servers that this
// server is alive.
func (db *postgresDB) connectListener(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, db.config)
	if err != nil {
		return db.explain(err)
	}
	_, err = conn.Exec(ctx, "select pg_advisory_lock(hashtextextended($1, 0))", db.key("instance", db.instance))
	if err == nil {
		_, err = conn.Exec(ctx, "listen "+pgx.Identifier{db.channel()}.Sanitize())
	}
	if err != nil {
		_ = conn.Close(ctx)
		return db.explain(err)
	}
	db.listener = conn
	return nil
}

// nextNotification waits for a notification and returns the stream that another server has
// appended to, or "" for any stream. After an error, notifications may have been missed.
func (db *postgresDB) nextNotification(ctx context.Context) (stream string, err error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, pingAfter)
		n, err := db.listener.WaitForNotification(quiet)
		cancel()
		var timeout net.Error
		switch {
		case err == nil:
			instance, stream, _ := strings.Cut(n.Payload, " ")
			if instance != db.instance {
				return stream, nil
			}
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
			if err := db.ping(ctx); err != nil {
				return "", err
			}
		default:
			return "", err
		}
	}
}

func (db *postgresDB) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return db.listener.Ping(ctx)
}

// listen passes events that other servers append to the followers in this server.
func (l *Log) listen(ctx context.Context, db *postgresDB) {
	wait := 50 * time.Millisecond
	for ctx.Err() == nil {
		if db.listener == nil || db.listener.IsClosed() {
			if err := db.connectListener(ctx); err != nil {
				l.cfg.Logger.Debug("event log cannot receive notifications", "error", err)
				pause(ctx, wait)
				wait = min(2*wait, time.Second)
				continue
			}
			db.outage.finish()
			l.refresh(ctx, "") // notifications may have been missed
		}
		wait = 50 * time.Millisecond
		stream, err := db.nextNotification(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.cfg.Logger.Warn("event log lost its connection", "error", err)
			}
			db.outage.begin()
			closing, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = db.listener.Close(closing)
			cancel()
			continue
		}
		l.refresh(ctx, stream)
	}
}

// outage records when the listener of this server was not connected. The other servers may
// have lost their connections at the same time, and need time to show that they are alive.
type outage struct {
	now   atomic.Bool
	start atomic.Int64 // the start of the last outage in Unix milliseconds
	end   atomic.Int64 // the end of the last outage in Unix milliseconds; 0: there was none
}

// reconnectTime is the maximum time that a server needs to connect again when it can reach
// Postgres.
const reconnectTime = 2 * time.Second

func (o *outage) begin() {
	if !o.now.Load() {
		o.start.Store(time.Now().UnixMilli())
	}
	o.now.Store(true)
}

// Outage returns the time since this Log lost the connection over which other servers report new
// events. It returns zero while there is a connection, and with SQLite.
func (l *Log) Outage() time.Duration {
	db, ok := l.db.(*postgresDB)
	if !ok || !db.outage.now.Load() {
		return 0
	}
	return time.Since(time.UnixMilli(db.outage.start.Load()))
}

func (o *outage) finish() {
	o.end.Store(time.Now().UnixMilli())
	o.now.Store(false)
}

func (o *outage) recent() bool {
	return o.now.Load() || time.Since(time.UnixMilli(o.end.Load())) < reconnectTime
}

func pause(ctx context.Context, wait time.Duration) {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// refresh publishes new events of a stream to its followers, or of all streams if name is "".
func (l *Log) refresh(ctx context.Context, name string) {
	for _, s := range l.streams.followed(name) {
		if err := l.catchUp(ctx, s); err != nil {
			// The followers then read the database themselves, and wait for it.
			l.streams.forget(s.name)
		}
		l.streams.release(s)
	}
}

// catchUp publishes events that other servers have appended to a stream.
func (l *Log) catchUp(ctx context.Context, s *stream) error {
	for {
		s.mu.Lock()
		s.changes++
		known, last := s.known, s.pos.last
		s.mu.Unlock()
		if !known {
			return nil // load sees that changes has changed, and asks again
		}
		events, err := l.page(ctx, s.name, last, pageEvents)
		if err != nil || len(events) == 0 {
			return err
		}
		l.streams.publish(s.name, 0, last, events)
		if f := l.cfg.OnArrival; f != nil {
			f(max(0, time.Since(events[0].At)))
		}
	}
}

// Alive reports whether the [Log] with that [Log.Instance] is still open. With SQLite only
// this Log can be. A server that has lost its connection to Postgres is not alive
// until it has connected again, which takes about a second. If this server
// has lost its own connection, Alive waits until the others had time to connect again. For
// this opening, Alive reports what other servers see.
func (l *Log) Alive(ctx context.Context, instance string) (alive bool, err error) {
	if err := l.open(); err != nil {
		return false, err
	}
	db, ok := l.db.(*postgresDB)
	if !ok {
		return instance == l.instance, nil
	}
	for {
		alive, err := db.alive(ctx, instance)
		if alive || err != nil || !db.outage.recent() {
			return alive, err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// alive reports whether a server holds an instance's lock.
func (db *postgresDB) alive(ctx context.Context, instance string) (alive bool, err error) {
	_, err = queryRow(ctx, db.reader(), statement{"select exists (select 1 from pg_locks where locktype = 'advisory' and objsubid = 1 " +
		"and granted and database = (select oid from pg_database where datname = current_database()) " +
		"and ((classid::bigint << 32) | objid::bigint) = hashtextextended($1, 0))", []any{db.key("instance", instance)}}, &alive)
	return alive, err
}
