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

// The servers that share a database tell each other which streams have grown.
// What they say is a reason to look and nothing more: who has not heard it
// looks when the connection is back.

const (
	// pingAfter is how long the listener's connection may be silent before it
	// is tried.
	pingAfter = 30 * time.Second

	// maxNotified is how many streams a transaction announces by name. Beyond
	// that, everybody looks after all of theirs.
	maxNotified = 64
)

// channel is where the servers of a schema hear each other.
func (db *postgresDB) channel() string {
	name := "deskhand_" + db.schema
	return name[:min(len(name), 63)]
}

// connectEar makes the listener's connection, which also shows the others that
// this server is alive.
func (db *postgresDB) connectEar(ctx context.Context) error {
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
	db.ear = conn
	return nil
}

// hear returns the next stream that another server has appended to; "" stands
// for any. An error means that some may have been missed.
func (db *postgresDB) hear(ctx context.Context) (stream string, err error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, pingAfter)
		n, err := db.ear.WaitForNotification(quiet)
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
	return db.ear.Ping(ctx)
}

// listen brings what other servers append to the followers here.
func (l *Log) listen(ctx context.Context, db *postgresDB) {
	wait := 50 * time.Millisecond
	for ctx.Err() == nil {
		if db.ear == nil || db.ear.IsClosed() {
			if err := db.connectEar(ctx); err != nil {
				l.cfg.Logger.Debug("event log listens to nobody", "error", err)
				pause(ctx, wait)
				wait = min(2*wait, time.Second)
				continue
			}
			db.lost.found()
			l.refresh(ctx, "") // what was not heard
		}
		wait = 50 * time.Millisecond
		stream, err := db.hear(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.cfg.Logger.Warn("event log lost its connection", "error", err)
			}
			db.lost.begin()
			closing, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = db.ear.Close(closing)
			cancel()
			continue
		}
		l.refresh(ctx, stream)
	}
}

// lostEar tells whether the others had the time to show that they are alive,
// since what this server has lost they may have lost, too.
type lostEar struct {
	now  atomic.Bool
	back atomic.Int64 // when it was found last, in Unix milliseconds; 0: never lost
}

// backTime is within what a server is back that can reach Postgres again.
const backTime = 2 * time.Second

func (e *lostEar) begin() { e.now.Store(true) }

func (e *lostEar) found() {
	e.back.Store(time.Now().UnixMilli())
	e.now.Store(false)
}

func (e *lostEar) recent() bool {
	return e.now.Load() || time.Since(time.UnixMilli(e.back.Load())) < backTime
}

func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refresh makes those who follow a stream look at it; all streams if it is "".
func (l *Log) refresh(ctx context.Context, name string) {
	for _, s := range l.streams.followed(name) {
		if err := l.catchUp(ctx, s); err != nil {
			// They ask the database themselves then, and wait for it.
			l.streams.forget(s.name)
		}
		l.streams.release(s)
	}
}

// catchUp publishes what others have appended to a stream.
func (l *Log) catchUp(ctx context.Context, s *stream) error {
	for {
		s.mu.Lock()
		s.heard++
		known, last := s.known, s.pos.last
		s.mu.Unlock()
		if !known {
			return nil // who finds it out now sees that it was heard of
		}
		events, err := l.page(ctx, s.name, last, pageEvents)
		if err != nil || len(events) == 0 {
			return err
		}
		l.streams.publish(s.name, 0, last, events)
	}
}

// Alive tells whether an opening of the log, as [Log.Instance] names it, is
// still open. With SQLite that is this one alone. A server that has lost its
// connection to Postgres counts as gone until it has it back, which takes it
// about a second; when this one has lost its own as well, it waits for that. Of
// this one it tells what the others see.
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
		if alive || err != nil || !db.lost.recent() {
			return alive, err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// alive asks who holds an instance's lock.
func (db *postgresDB) alive(ctx context.Context, instance string) (alive bool, err error) {
	_, err = one(ctx, db.reader(), statement{"select exists (select 1 from pg_locks where locktype = 'advisory' and objsubid = 1 " +
		"and granted and database = (select oid from pg_database where datname = current_database()) " +
		"and ((classid::bigint << 32) | objid::bigint) = hashtextextended($1, 0))", []any{db.key("instance", instance)}}, &alive)
	return alive, err
}
