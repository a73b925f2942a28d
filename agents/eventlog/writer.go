package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	maxGroup      = 512     // events, and callers, in one transaction
	maxGroupBytes = 8 << 20 // of payloads in one transaction; the last caller may exceed it
)

// job is a caller's commit.
type job struct {
	f         func(*Tx) error
	alone     func(context.Context, transaction) error // called instead of f, in its own transaction
	state     atomic.Int32
	uncertain atomic.Bool // Commit has returned ErrUncertain to the caller

	impatient bool // returns an error while the database is away

	finished bool // err is final; only the writer uses this field
	err      error
	done     chan struct{} // closed when finished is set
}

// The states of a job. Writer and caller change them atomically, so that only one of them ends
// the job.
const (
	queued    = iota // waits for the writer, or for the database
	running          // the writer commits it
	abandoned        // the caller has returned, and the writer skips the job
)

// Commit calls f and commits all changes of f, in one transaction with the changes of
// concurrent callers. It returns when they are committed and followers can read them. If f returns
// an error, Commit commits none of them and returns that error. Commit calls f in another
// goroutine. If f panics, Commit panics. If f ends its goroutine, Commit ends the caller's.
//
// f must only use its Tx, must return quickly, and must not call the log, because all
// other callers wait for it. f is called again when a transaction fails because of
// another caller or server.
//
// ctx bounds the wait for the writer and for Postgres to come back. If ctx ends before f
// is called, Commit returns the error of ctx, which also wraps ErrUnavailable while Postgres
// cannot be reached.
// While a transaction runs, Commit waits for its outcome even if ctx ends.
//
// Errors: the error of f, the error of ctx, [ErrClosed], [ErrFull], [ErrBusy],
// [ErrUnavailable], [ErrUncertain], [ErrExists] and [*CorruptError].
func (l *Log) Commit(ctx context.Context, f func(*Tx) error) error {
	return l.submit(ctx, &job{f: f})
}

// TryCommit is like [Log.Commit] but returns [ErrUnavailable] immediately if Postgres
// cannot be reached, and an [*UncertainError] if the connection broke during the commit
// and its outcome is not known yet.
func (l *Log) TryCommit(ctx context.Context, f func(*Tx) error) error {
	return l.submit(ctx, &job{f: f, impatient: true})
}

// submit gives a job to the writer and waits until it is finished. If the job's function
// panics or ends its goroutine, submit does the same in the caller's goroutine.
func (l *Log) submit(ctx context.Context, j *job) (err error) {
	defer func() {
		if p, ok := errors.AsType[*panicError](err); ok && j.f != nil {
			panic(p.value)
		}
		if errors.Is(err, errEnded) {
			runtime.Goexit()
		}
	}()
	if err := cmp.Or(ctx.Err(), l.open()); err != nil {
		return err
	}
	var away <-chan struct{}
	if j.impatient {
		now := l.away.now.Load()
		if err := now.why(); err != nil {
			return err
		}
		away = now.begun
	}
	j.done = make(chan struct{})
	select {
	case l.jobs <- j:
	case <-l.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-j.done:
		return j.err
	case <-l.written: // the job may have been queued after the writer had read the queue
		if j.state.CompareAndSwap(queued, abandoned) {
			return ErrClosed
		}
		<-j.done
		return j.err
	case <-away:
		return l.abandon(ctx, j)
	case <-ctx.Done():
		return l.abandon(ctx, j)
	}
}

// abandon removes a job that the writer is not running, and otherwise waits until the job
// is finished. If the connection breaks during the commit, it returns without the outcome:
// an UncertainError to TryCommit, ErrUncertain to Commit.
func (l *Log) abandon(ctx context.Context, j *job) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if j.state.CompareAndSwap(queued, abandoned) {
			why, late := l.away.now.Load().why(), ctx.Err()
			if why != nil && late != nil {
				return fmt.Errorf("%w: %w", why, late)
			}
			return cmp.Or(why, late, ErrUnavailable) // both are nil if the absence has just ended
		}
		switch {
		case !l.db.uncertain():
		case j.impatient:
			return &UncertainError{l, j}
		default:
			j.uncertain.Store(true)
			return fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
		}
		select {
		case <-j.done:
			return j.err
		case <-tick.C:
		}
	}
}

func (j *job) finish(err error) {
	if !j.finished {
		j.finished, j.err = true, err
		close(j.done)
	}
}

// write is the writer. It is the only goroutine that writes to the database.
func (l *Log) write(ctx context.Context) {
	defer close(l.written)
	for {
		select {
		case j := <-l.jobs:
			l.serve(ctx, j)
		case <-l.closing:
			for { // finish the jobs in the queue
				select {
				case j := <-l.jobs:
					l.serve(ctx, j)
				default:
					return
				}
			}
		}
	}
}

// serve commits a job together with the queued jobs behind it. A job with its own
// transaction may take long, so jobs before it are committed without it.
func (l *Log) serve(ctx context.Context, j *job) {
	for j != nil && j.state.CompareAndSwap(queued, running) {
		b := &commitBatch{log: l, jobs: []*job{j}, open: j.alone == nil}
		b.commit(ctx)
		j = b.next
	}
}
