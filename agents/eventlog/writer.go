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
	maxGroup      = 512     // events, or callers, of one transaction
	maxGroupBytes = 8 << 20 // of payloads in one transaction, without the last caller's
)

// job is a caller's commit.
type job struct {
	f     func(*Tx) error
	alone func(context.Context, transaction) error // instead of f, in a transaction for itself
	state atomic.Int32
	left  atomic.Bool // its caller got ErrUncertain

	impatient bool // returns an error while the database is away

	over bool // err is final; the writer's
	err  error
	done chan struct{} // closed when it is over
}

// The states of a job, by which writer and caller agree which of them ends it.
const (
	queued  = iota // waits for the writer, or for the database
	running        // the writer has it
	gone           // the caller has left
)

// Commit calls f and commits all changes of f, in one transaction with the changes of
// concurrent callers. It returns when they are committed and followers can read them. If f returns
// an error, Commit commits none of them and returns that error. Commit calls f in another
// goroutine. It panics if f does, and ends its goroutine if f does.
//
// f must only use its Tx, must return quickly, and must not call the log, because all
// other callers wait for it. f is called again when a transaction fails because of
// another caller or server.
//
// ctx bounds the wait for the writer and for Postgres to come back. If ctx ends before f
// is called, the error is that of ctx, or also ErrUnavailable while Postgres is away.
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

// submit gives a job to the writer and waits for its end. If the job's function panics or
// ends its goroutine, submit does the same to this one.
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
	case <-l.written: // it may have been put in the queue after the writer's last look
		if j.state.CompareAndSwap(queued, gone) {
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

// abandon waits until a job is over, or can be left undone, or until it is uncertain
// how it ends.
func (l *Log) abandon(ctx context.Context, j *job) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if j.state.CompareAndSwap(queued, gone) {
			why, late := l.away.now.Load().why(), ctx.Err()
			if why != nil && late != nil {
				return fmt.Errorf("%w: %w", why, late)
			}
			return cmp.Or(why, late, ErrUnavailable) // the last: it is just back
		}
		switch {
		case !l.db.uncertain():
		case j.impatient:
			return &UncertainError{l, j}
		default:
			j.left.Store(true)
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
	if !j.over {
		j.over, j.err = true, err
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
			for { // the jobs that were submitted before
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

// serve commits a job together with the jobs that wait after it. A job with its own
// transaction may take long, so earlier jobs do not wait for it.
func (l *Log) serve(ctx context.Context, j *job) {
	for j != nil && j.state.CompareAndSwap(queued, running) {
		b := &commitBatch{log: l, jobs: []*job{j}, more: j.alone == nil}
		b.commit(ctx)
		j = b.next
	}
}
