package eventlog

import (
	"context"
	"fmt"
	"sync/atomic"
)

// absences records whether the database can be reached. The writer changes it. Any goroutine
// may read it.
type absences struct{ now atomic.Pointer[absence] }

// absence is a period in which the database cannot be reached. absences.now is the present
// one or, while the database can be reached, the next one.
type absence struct {
	begun chan struct{} // closed when the absence begins
	err   error         // the reason; set before begun is closed
}

func (a *absences) end() {
	if now := a.now.Load(); now == nil || now.err != nil {
		a.now.Store(&absence{begun: make(chan struct{})})
	}
}

func (a *absences) begin(err error) {
	if now := a.now.Load(); now.err == nil {
		now.err = err
		close(now.begun)
	}
}

// why returns the reason if the absence has begun, else nil.
func (a *absence) why() error {
	select {
	case <-a.begun:
		return a.err
	default:
		return nil
	}
}

// UncertainError is the form of [ErrUncertain] that [Log.TryCommit] returns. The function
// given to TryCommit may still be called.
type UncertainError struct {
	log *Log
	job *job
}

// Error implements error.
func (e *UncertainError) Error() string { return ErrUncertain.Error() }

// Unwrap returns [ErrUncertain].
func (e *UncertainError) Unwrap() error { return ErrUncertain }

// Wait blocks until the outcome of the commit is known, and returns the error that
// [Log.Commit] would return. It returns an ErrUncertain if ctx ends first, and may then be
// called again.
func (e *UncertainError) Wait(ctx context.Context) error {
	select {
	case <-e.job.done:
		return e.job.err
	case <-e.log.written: // the writer has finished all jobs
		<-e.job.done
		return e.job.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
	}
}
