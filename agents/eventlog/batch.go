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

// commitBatch is the jobs that are committed together.
type commitBatch struct {
	log  *Log
	jobs []*job
	more bool // jobs that wait may join
	next *job // was taken from the queue and cannot join
}

const (
	maxConflicts   = 30
	reconnectFirst = 50 * time.Millisecond
	reconnectMost  = time.Second
)

// commit commits the jobs, finishes each with its outcome, and is the one place
// that retries and refuses:
//
//   - A job whose own function fails gets that error. The others are committed.
//   - A single job that conflicts with another server's transaction is tried again,
//     and gets ErrBusy after maxConflicts times.
//   - While Postgres is away, commit tries again as long as a caller waits for that.
//   - An error of the database, such as ErrFull, is the outcome of all jobs.
//   - Any other error is one job's fault: each job is committed alone.
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
			b.log.away.gone(err)
			again = b.isAwaited() && b.pause(ctx, wait)
			wait = min(2*wait, reconnectMost)
		}
	}
	if absences > 0 {
		b.log.away.back()
	}
	if err != nil && len(b.jobs) > 1 && !isOfDatabase(err) {
		for _, j := range b.jobs {
			if !j.over {
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

// isOfDatabase reports whether an error is the database's and no job's.
func isOfDatabase(err error) bool {
	corrupt := new(CorruptError)
	return errors.Is(err, ErrFull) || errors.Is(err, ErrBusy) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrUncertain) || errors.As(err, &corrupt)
}

// isAwaited reports whether a caller waits for the database to come back.
func (b *commitBatch) isAwaited() bool {
	return slices.ContainsFunc(b.jobs, func(j *job) bool { return !j.over && !j.impatient && !j.left.Load() })
}

// pause lets callers leave, and reports whether others still wait.
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
		if j.state.CompareAndSwap(queued, running) && !j.over {
			waiting = true
		}
	}
	return waiting && !closing
}

// transact does the jobs, and those that join, in one transaction of the database.
func (b *commitBatch) transact(ctx context.Context) error {
	tx, err := b.log.db.begin(ctx)
	if err != nil {
		return err
	}
	g := newGroup(b.log, tx)
	if err = b.fill(ctx, g); err == nil {
		err = tx.commit(ctx)
	}
	if err != nil {
		tx.rollback()
		return err
	}
	g.publish()
	return nil
}

// fill does all of a transaction but its end.
func (b *commitBatch) fill(ctx context.Context, g *group) error {
	if alone := b.jobs[0].alone; alone != nil {
		return alone(ctx, g.tx)
	}
	for _, j := range b.jobs {
		if err := b.add(ctx, g, j); err != nil {
			return err
		}
	}
	for b.more && b.next == nil && len(b.jobs) < maxGroup && len(g.events) < maxGroup && g.bytes < maxGroupBytes {
		j := b.take()
		if j == nil {
			break
		}
		err := b.add(ctx, g, j)
		if errors.Is(err, errTaken) { // as the first job of the next batch it may wait
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
	// The database answers. It must not count as away when this commit is visible.
	b.log.away.back()
	return nil
}

// add adds what a job does to the group. An error is the database's. An error of the
// job itself is its outcome.
func (b *commitBatch) add(ctx context.Context, g *group, j *job) error {
	if j.over || j.left.Load() || j.state.Load() != running {
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

// take returns a waiting job that can join, or nil. It yields once, because callers
// that were just answered may be about to commit again.
func (b *commitBatch) take() *job {
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

// errEnded is the error of a function that ended its goroutine.
var errEnded = errors.New("the function of a commit ended its goroutine")

// guarded calls f in another goroutine, which f may end, and returns its panic as an error.
func guarded(f func() error) error {
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
