package process

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// killWait is how long Run waits for the end of a program that it has killed.
const killWait = 200 * time.Millisecond

// RunOptions bound one call of Run.
type RunOptions struct {
	// Timeout is the longest duration of the call, at most Limits.MaxRunTimeout. Zero
	// or less: Limits.RunTimeout.
	Timeout time.Duration

	// MaxOutput is how many bytes of each of the two outputs are kept, at most
	// Limits.MaxOutput. Nil: Limits.MaxOutput.
	MaxOutput *int
}

// Result is the outcome of a run.
type Result struct {
	Exit                             Exit // the zero value if TimedOut or if ctx ended
	TimedOut                         bool
	Stdout, Stderr                   []byte // the first bytes of the output
	StdoutTruncated, StderrTruncated bool   // there was more output
	Duration                         time.Duration
}

// Run runs a program to its end, with /dev/null as its input, and returns its output.
// Processes that the program leaves running go on until the manager is closed, but their
// output is lost.
//
// At the timeout, or when ctx ends, Run kills the program and the processes that it
// started. It waits up to 200 ms for their end and returns the output that has arrived.
// The kill continues in the background.
//
// At most Limits.MaxProcesses calls run concurrently. Other calls wait for their turn in
// the order of the calls. The wait counts towards their timeout.
//
// Run returns an [InvalidError], a [StartError], a [LimitError] if there was no turn in
// time, the error of ctx, or [ErrClosed] if Close came before the start or ended the
// program. If the program was started, the Result holds its output also with an error. A
// timeout or the program's failure is not an error. Terminal, Interactive, Cols and Rows
// of the Spec are ignored.
func (m *Manager) Run(ctx context.Context, s Spec, o RunOptions) (Result, error) {
	began := time.Now()
	s.Terminal = false
	s, err := s.check()
	if err != nil {
		return Result{}, err
	}
	if o.MaxOutput != nil && *o.MaxOutput < 0 {
		return Result{}, &InvalidError{Field: "MaxOutput", Reason: "must not be negative"}
	}
	sup, err := m.prepare(s)
	if err != nil {
		return Result{}, err
	}
	if err := m.addWork(); err != nil {
		return Result{}, err
	}
	defer m.work.Done()
	timeout, maxOutput := m.bounds(o)
	t := time.NewTimer(timeout)
	defer t.Stop()
	if err := m.waitTurn(ctx, t); err != nil {
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
	r.Stdout, r.StdoutTruncated = out.finish()
	r.Stderr, r.StderrTruncated = errs.finish()
	r.Duration = time.Since(began)
	return r, err
}

// finish waits for a program's end, and kills it at the timeout or when ctx ends.
func (m *Manager) finish(ctx context.Context, c *supervise.Child, timeout <-chan time.Time, r *Result) error {
	select {
	case <-c.Done():
		r.Exit = exitOf(c.Exit())
		return m.closedError(c)
	case <-timeout:
		r.TimedOut = true
		m.killNow(c)
		return nil
	case <-ctx.Done():
		m.killNow(c)
		return ctx.Err()
	}
}

// bounds returns a run's timeout and the maximum of each output.
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

// waitTurn waits until one more program may run.
func (m *Manager) waitTurn(ctx context.Context, t *time.Timer) error {
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

// closedError returns ErrClosed for a child that Close has ended.
func (m *Manager) closedError(c *supervise.Child) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed && c.Exit().Signal != 0 {
		return ErrClosed
	}
	return nil
}

// killNow kills a child and the processes that it started, and waits up to killWait.
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

// kill kills a child and the processes that it started, and waits for their ends.
func (m *Manager) kill(c *supervise.Child) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Stop(now); err != nil {
		m.cfg.Logger.Debug("a process could not be ended", "id", c.ID(), "error", err)
	}
}
