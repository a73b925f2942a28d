package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// commitBatch holds the jobs that are committed together.
type commitBatch struct {
	log  *Log
	jobs []*job
	open bool // queued jobs may join
	next *job // from the queue, but cannot join; nil: none
}

const (
	maxConflicts   = 30
	reconnectFirst = 50 * time.Millisecond
	reconnectMost  = time.Second
)

// commit commits the jobs and finishes each with its outcome. All retries are here:
//
//   - A job whose function fails gets that error. The others are committed.
//   - A single job that conflicts with another server's transaction is tried again,
//     and gets ErrBusy after maxConflicts conflicts.
//   - While Postgres cannot be reached, commit tries again as long as a caller waits for it.
//   - An error of the database, such as ErrFull, is the outcome of all jobs.
//   - After any other error, which one of the jobs has caused, each job is committed alone.
func (b *commitBatch) commit(ctx context.Context) {
	var err error
	conflicts, absences, wait := 0, 0, reconnectFirst
	for again := true; again; {
		again = false
		err = b.transact(ctx)
		switch {
		case errors.As(err, new(*retryError)) && len(b.jobs) == 1:
			if conflicts++; conflicts == maxConflicts {
				err = fmt.Errorf("%w: %w", ErrBusy, err)
				break
			}
			pause(ctx, rand.N(time.Duration(conflicts)*2*time.Millisecond))
			again = true
		case errors.Is(err, ErrUnavailable) && b.log.db.shared():
			if absences++; absences == 1 { // perhaps only the connection broke
				again = true
				break
			}
			b.log.away.begin(err)
			again = b.isAwaited() && b.pause(ctx, wait)
			wait = min(2*wait, reconnectMost)
		}
	}
	if absences > 0 {
		b.log.away.end()
	}
	if err != nil && len(b.jobs) > 1 && !isDatabaseError(err) {
		for _, j := range b.jobs {
			if !j.finished {
				(&commitBatch{log: b.log, jobs: []*job{j}}).commit(ctx)
			}
		}
		return
	}
	for _, j := range b.jobs {
		if j.state.Load() == running {
			j.finish(err)
		}
	}
}

// isDatabaseError reports whether an error comes from the database and not from a job.
func isDatabaseError(err error) bool {
	corrupt := new(CorruptError)
	return errors.Is(err, ErrFull) || errors.Is(err, ErrBusy) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrUncertain) || errors.As(err, &corrupt)
}

// isAwaited reports whether a caller waits until the database can be reached again.
func (b *commitBatch) isAwaited() bool {
	return slices.ContainsFunc(b.jobs, func(j *job) bool { return !j.finished && !j.impatient && !j.uncertain.Load() })
}

// pause waits. Meanwhile callers may abandon their jobs. It reports whether other callers
// still wait, and is false if the log is being closed.
func (b *commitBatch) pause(ctx context.Context, wait time.Duration) bool {
	for _, j := range b.jobs {
		j.state.CompareAndSwap(running, queued)
	}
	closing := false
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		closing = true
	case <-b.log.closing:
		closing = true
	}
	waiting := false
	for _, j := range b.jobs {
		if j.state.CompareAndSwap(queued, running) && !j.finished {
			waiting = true
		}
	}
	return waiting && !closing
}

// transact commits the jobs, and the queued jobs that join, in one transaction of the database.
func (b *commitBatch) transact(ctx context.Context) error {
	tx, err := b.log.db.begin(ctx)
	if err != nil {
		return err
	}
	g := newGroup(b.log, tx)
	if err = b.fill(ctx, g); err == nil {
		begun := time.Now()
		err = tx.commit(ctx)
		if err == nil && b.log.cfg.OnCommit != nil {
			b.log.cfg.OnCommit(time.Since(begun))
		}
	}
	if err != nil {
		tx.rollback()
		return err
	}
	g.publish()
	return nil
}

// fill does everything in a transaction except the commit.
func (b *commitBatch) fill(ctx context.Context, g *group) error {
	if alone := b.jobs[0].alone; alone != nil {
		return alone(ctx, g.tx)
	}
	for _, j := range b.jobs {
		if err := b.add(ctx, g, j); err != nil {
			return err
		}
	}
	for b.open && b.next == nil && len(b.jobs) < maxGroup && len(g.events) < maxGroup && g.bytes < maxGroupBytes {
		j := b.dequeue()
		if j == nil {
			break
		}
		err := b.add(ctx, g, j)
		if errors.Is(err, errTaken) { // it may wait for the lock as the first job of the next batch
			j.state.Store(queued)
			b.next = j
			break
		}
		b.jobs = append(b.jobs, j)
		if err != nil {
			return err
		}
	}
	if err := g.tx.exec(ctx, g.statements(), g.streams()); err != nil {
		return err
	}
	// The database has answered, so the absence must end before this commit is visible.
	b.log.away.end()
	return nil
}

// add adds the changes of a job to the group. It returns an error of the database. A job
// whose function fails is finished with that error.
func (b *commitBatch) add(ctx context.Context, g *group, j *job) error {
	if j.finished || j.uncertain.Load() || j.state.Load() != running {
		return nil
	}
	broken, err := g.add(ctx, j.f)
	if broken {
		return err
	}
	if err != nil {
		j.finish(err)
	}
	return nil
}

// dequeue returns a queued job that can join, or nil. It yields once, because callers
// whose commits have just returned may be about to commit again.
func (b *commitBatch) dequeue() *job {
	for yielded := false; ; {
		select {
		case j := <-b.log.jobs:
			if j.alone != nil {
				b.next = j
				return nil
			}
			if j.state.CompareAndSwap(queued, running) {
				return j
			}
		default:
			if yielded {
				return nil
			}
			yielded = true
			runtime.Gosched()
		}
	}
}

// panicError carries a panic of a job's function from the writer to the caller.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// errEnded reports that a job's function ended its goroutine.
var errEnded = errors.New("the function of a commit ended its goroutine")

// callIsolated calls f in another goroutine, which f may end. It returns a panic of f as a
// panicError, and errEnded if f ended the goroutine.
func callIsolated(f func() error) error {
	err := errEnded
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = &panicError{v}
			}
		}()
		err = f()
	}()
	<-done
	return err
}
