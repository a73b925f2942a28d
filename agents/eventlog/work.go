package eventlog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// work is some jobs that are committed together.
type work struct {
	log  *Log
	jobs []*job
	more bool // those that wait may join
	next *job // was taken from the queue and cannot join
}

func (w *work) do(ctx context.Context) {
	err := w.insist(ctx)
	if err != nil && len(w.jobs) > 1 && !hopeless(err) {
		// One of them is to blame. Each for itself.
		for _, j := range w.jobs {
			if !j.over {
				alone := &work{log: w.log, jobs: []*job{j}}
				alone.do(ctx)
			}
		}
		return
	}
	for _, j := range w.jobs {
		if j.state.Load() == running {
			j.finish(err)
		}
	}
}

// hopeless tells whether an error is the database's, and nobody's fault.
func hopeless(err error) bool {
	corrupt := new(CorruptError)
	return errors.Is(err, ErrFull) || errors.Is(err, ErrBusy) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrUncertain) || errors.As(err, &corrupt)
}

// insist commits, as often as the database goes away and comes back while there
// is somebody who waits for that. At first it may be the connection alone that
// broke.
func (w *work) insist(ctx context.Context) error {
	err := w.settle(ctx)
	if !errors.Is(err, ErrUnavailable) || !w.log.db.shared() {
		return err
	}
	defer w.log.away.back()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if err = w.settle(ctx); !errors.Is(err, ErrUnavailable) {
			return err
		}
		w.log.away.gone(err)
		if !w.patient() || !w.pause(ctx, wait) {
			return err
		}
	}
}

// patient tells whether there is somebody who waits for the database.
func (w *work) patient() bool {
	return slices.ContainsFunc(w.jobs, func(j *job) bool { return !j.over && !j.impatient && !j.left.Load() })
}

// settle commits. A single job that got in the way of another server's is done
// again; several are, each for itself.
func (w *work) settle(ctx context.Context) error {
	err := w.commit(ctx)
	if errors.As(err, new(*retryError)) && len(w.jobs) == 1 {
		err = again(ctx, func() error { return w.commit(ctx) })
	}
	return err
}

// pause lets the callers go who do not want to wait, and tells whether others
// do.
func (w *work) pause(ctx context.Context, wait time.Duration) bool {
	for _, j := range w.jobs {
		j.state.CompareAndSwap(running, queued)
	}
	closing := false
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		closing = true
	case <-w.log.closing:
		closing = true
	}
	waiting := false
	for _, j := range w.jobs {
		if j.state.CompareAndSwap(queued, running) && !j.over {
			waiting = true
		}
	}
	return waiting && !closing
}

// commit commits the jobs as one group, and takes more if it may. Those whose
// own functions fail are finished.
func (w *work) commit(ctx context.Context) error {
	var g *group
	err := w.log.transact(ctx, func(ctx context.Context, tx transaction) error {
		g = newGroup(w.log, tx)
		for _, j := range w.jobs {
			if err := w.add(ctx, g, j); err != nil {
				return err
			}
		}
		for w.more && w.next == nil && len(w.jobs) < maxGroup && len(g.events) < maxGroup && g.bytes < maxGroupBytes {
			j := w.take()
			if j == nil {
				break
			}
			err := w.add(ctx, g, j)
			if errors.Is(err, errTaken) { // the first of the next group may wait
				j.state.Store(queued)
				w.next = j
				break
			}
			w.jobs = append(w.jobs, j)
			if err != nil {
				return err
			}
		}
		if err := tx.finish(ctx, g.statements(), g.streams()); err != nil {
			return err
		}
		// The database answers: who sees what is committed next is not told that it
		// is away.
		w.log.away.back()
		return nil
	})
	if err == nil {
		g.publish()
	}
	return err
}

// add lets a job fill the group. An error is the database's; those of the job
// itself are its end.
func (w *work) add(ctx context.Context, g *group, j *job) error {
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

// take returns a job that waits and can join, if there is one. Those who were
// just answered may be about to come back: they get the chance.
func (w *work) take() *job {
	for yielded := false; ; {
		select {
		case j := <-w.log.jobs:
			if j.alone != nil {
				w.next = j
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

// panicError carries a panic of a caller's function from the writer to it.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// guarded calls f, and makes an error of its panic.
func guarded(f func() error) (err error) {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v}
		} else if !returned {
			err = errors.New("the function of a commit ended its goroutine")
		}
	}()
	err = f()
	returned = true
	return err
}
