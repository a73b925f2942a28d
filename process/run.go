package process

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// killWait is how long the answer waits for the end of what it has killed.
const killWait = 200 * time.Millisecond

// RunOptions bound one call of Run.
type RunOptions struct {
	// Timeout is how long to wait, from the call on. Zero or less:
	// Limits.RunTimeout. More than Limits.MaxRunTimeout is that.
	Timeout time.Duration

	// MaxOutput is how many bytes are kept of each of the two outputs. Nil, or
	// more than Limits.MaxOutput: that.
	MaxOutput *int
}

// Result is what came of a run.
type Result struct {
	Exit                             Exit // without a code when TimedOut
	TimedOut                         bool
	Stdout, Stderr                   []byte // the first bytes of what was written
	StdoutTruncated, StderrTruncated bool   // there was more
	Duration                         time.Duration
}

// Run runs a program to its end, with nothing to read (/dev/null), and returns
// what it wrote. It returns when the program itself has ended; what the program
// left running goes on until the manager is closed, but its output is lost. At
// the timeout, or when ctx ends, the program and all that it started are killed,
// and Run returns at once with what there is.
//
// At most Limits.MaxProcesses run at once. Others wait for their turn, which
// counts towards their timeout, in the order of the calls.
//
// The error is that of ctx, [ErrClosed], a [LimitError] when there was no turn
// in time, an [InvalidError], or a [StartError] with what the system said. A
// timeout and any end of the program are none. Terminal, Interactive, Cols and
// Rows of the Spec are ignored.
func (m *Manager) Run(ctx context.Context, s Spec, o RunOptions) (Result, error) {
	began := time.Now()
	s.Terminal = false
	s, err := s.check()
	if err != nil {
		return Result{}, err
	}
	if o.MaxOutput != nil && *o.MaxOutput < 0 {
		return Result{}, &InvalidError{Field: "maxOutputBytes", Problem: "must not be negative"}
	}
	sup, err := m.prepare(s)
	if err != nil {
		return Result{}, err
	}
	if err := m.begin(); err != nil {
		return Result{}, err
	}
	defer m.work.Done()
	timeout, maxOutput := m.bounds(o)
	t := time.NewTimer(timeout)
	defer t.Stop()
	if err := m.turn(ctx, t); err != nil {
		return Result{}, err
	}
	defer m.runs.leave()
	out, errs := &capture{limit: maxOutput}, &capture{limit: maxOutput}
	sup.Stdout, sup.Stderr = out, errs
	child, err := m.group.Start(sup)
	if err != nil {
		return Result{}, startError(s.Command, err)
	}
	var r Result
	err = m.finish(ctx, child, t.C, &r)
	r.Stdout, r.StdoutTruncated = out.take()
	r.Stderr, r.StderrTruncated = errs.take()
	r.Duration = time.Since(began)
	return r, err
}

// finish waits for a program's end, or makes it.
func (m *Manager) finish(ctx context.Context, c *supervise.Child, timeout <-chan time.Time, r *Result) error {
	select {
	case <-c.Done():
		r.Exit = exitOf(c.Exit())
		return m.closedNow(c)
	case <-timeout:
		r.TimedOut = true
		m.killNow(c)
		return nil
	case <-ctx.Done():
		m.killNow(c)
		return ctx.Err()
	}
}

// bounds returns a run's timeout and how much of its output to keep.
func (m *Manager) bounds(o RunOptions) (time.Duration, int) {
	l := m.Limits()
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = l.RunTimeout
	}
	maxOutput := l.MaxOutput
	if o.MaxOutput != nil {
		maxOutput = min(*o.MaxOutput, maxOutput)
	}
	return min(timeout, l.MaxRunTimeout), maxOutput
}

// turn waits until the program may be started.
func (m *Manager) turn(ctx context.Context, t *time.Timer) error {
	w := m.runs.enter()
	if w == nil {
		return nil
	}
	var err error
	select {
	case ok := <-w:
		if !ok {
			return ErrClosed
		}
		return nil
	case <-t.C:
		err = &LimitError{Limit: m.Limits().MaxProcesses}
	case <-ctx.Done():
		err = ctx.Err()
	}
	m.runs.giveUp(w)
	return err
}

// closedNow returns ErrClosed for a child that Close has ended.
func (m *Manager) closedNow(c *supervise.Child) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed && c.Exit().Signal != 0 {
		return ErrClosed
	}
	return nil
}

// killNow kills a child and all that it started, and waits for that a moment.
func (m *Manager) killNow(c *supervise.Child) {
	over := make(chan struct{})
	m.work.Go(func() {
		defer close(over)
		m.kill(c)
	})
	t := time.NewTimer(killWait)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
	}
}

// kill kills a child and all that it started.
func (m *Manager) kill(c *supervise.Child) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Stop(now); err != nil {
		m.cfg.Logger.Debug("a process could not be ended", "id", c.ID(), "error", err)
	}
}
