package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	maxGroup      = 512     // events, or callers, of one transaction
	maxGroupBytes = 8 << 20 // of payloads in one transaction, but for the last caller's
)

// job is a caller of Commit, or something that has a transaction for itself.
type job struct {
	f     func(*Tx) error
	alone func(context.Context, transaction) error // instead of f
	state atomic.Int32
	left  atomic.Bool // by its caller, who does not know how it ends

	impatient bool // is told when the database is away

	over bool // err is final; the writer's
	err  error
	done chan struct{} // closed when it is over
}

// The states of a job, in which writer and caller agree who ends it.
const (
	queued  = iota // waits for the writer, or for the database to come back
	running        // the writer has it
	gone           // the caller has given up
)

// Commit calls f, one caller's after the other, and commits what it did, as a
// whole, together with what others do at the same time. It returns when that is
// committed and the followers have been told. If f fails, nothing of it is
// committed and its error is returned.
//
// f must do nothing but fill its Tx, quickly, and must not call the log: all
// other callers wait for it. It is called again when a transaction fails because
// of somebody else.
//
// The context bounds the wait for the writer, and for Postgres to come back.
// Once f was called, Commit waits for the outcome, whose errors are [ErrFull],
// [ErrBusy], [ErrUnavailable], [ErrUncertain], [ErrExists] and [*CorruptError].
func (l *Log) Commit(ctx context.Context, f func(*Tx) error) error {
	return l.call(ctx, &job{f: f})
}

// call has a caller's function done, which panics where it was given.
func (l *Log) call(ctx context.Context, j *job) error {
	err := l.do(ctx, j)
	if p := new(panicError); errors.As(err, &p) {
		panic(p.value)
	}
	return err
}

// do has a job done by the writer.
func (l *Log) do(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-l.closing:
		return ErrClosed
	default:
	}
	var away <-chan struct{}
	if j.impatient {
		now := l.away.now.Load()
		if err := now.why(); err != nil {
			return err
		}
		away = now.begun
	}
	if l.doHere(j) {
		return j.err
	}
	l.queued.Add(1)
	defer l.queued.Add(-1)
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

// doHere does a job in its caller's goroutine if nobody else has one: to hand it
// over and wait would take longer than most commits. Those of Postgres have to be
// left while they are under way.
func (l *Log) doHere(j *job) bool {
	if j.alone != nil || l.db.shared() || l.queued.Load() > 0 || !l.writing.TryLock() {
		return false
	}
	defer l.writing.Unlock()
	select {
	case <-l.closing:
		return false
	default:
	}
	j.state.Store(running)
	w := &work{log: l, jobs: []*job{j}}
	w.do(l.running)
	return true
}

// abandon waits until a job is over, or can be left without a doubt, or until
// there is one.
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
		if j.done != nil { // somebody waits
			close(j.done)
		}
	}
}

// write is the writer, which does what callers do not do themselves.
func (l *Log) write(ctx context.Context) {
	defer close(l.written)
	for {
		select {
		case j := <-l.jobs:
			l.serve(ctx, j)
		case <-l.closing:
			for { // those who came before
				select {
				case j := <-l.jobs:
					l.serve(ctx, j)
				default:
					l.writing.Lock() // and who does his own
					defer l.writing.Unlock()
					return
				}
			}
		}
	}
}

// serve does a job with those that wait behind it.
func (l *Log) serve(ctx context.Context, j *job) {
	l.writing.Lock()
	defer l.writing.Unlock()
	for j != nil {
		switch {
		case !j.state.CompareAndSwap(queued, running):
			j = nil
		case j.alone != nil:
			j.finish(l.doAlone(ctx, j))
			j = nil
		default:
			w := &work{log: l, jobs: []*job{j}, more: true}
			w.do(ctx)
			j = w.next
		}
	}
}

// doAlone does what has a transaction for itself, which may take long: what was
// committed before does not wait for that, nor do those who read it.
func (l *Log) doAlone(ctx context.Context, j *job) error {
	return again(ctx, func() error { return l.transact(ctx, j.alone) })
}

// again does f as long as it gets in the way of other servers' transactions.
func again(ctx context.Context, f func() error) (err error) {
	for try := range 30 {
		if err = f(); !errors.As(err, new(*retryError)) {
			return err
		}
		pause(ctx, rand.N(time.Duration(try+1)*2*time.Millisecond))
	}
	return fmt.Errorf("%w: %w", ErrBusy, err)
}

// transact does f in a transaction.
func (l *Log) transact(ctx context.Context, f func(context.Context, transaction) error) error {
	tx, err := l.db.begin(ctx)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed { // also when f ends the goroutine
			tx.rollback()
		}
	}()
	if err = guarded(func() error { return f(ctx, tx) }); err == nil {
		err = tx.commit(ctx)
	}
	committed = err == nil
	return err
}
