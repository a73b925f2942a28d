package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// input is this program's end of a process's standard input: a pipe or a terminal.
type input struct {
	f    *os.File      // nil if the process takes no input
	free chan struct{} // holds a token while no Write runs
}

// pipe makes the input a pipe and returns the process's end.
func (in *input) pipe() (theirs *os.File, err error) {
	ours, theirs, err := supervise.Pipe(supervise.WriteEnd)
	if err != nil {
		return nil, err
	}
	in.open(ours)
	return theirs, nil
}

// open makes f, which is non-blocking, the input.
func (in *input) open(f *os.File) {
	in.f = f
	in.free = make(chan struct{}, 1)
	in.free <- struct{}{}
}

// close closes the input, which ends running writes.
func (in *input) close() {
	if in.f != nil {
		_ = in.f.Close()
	}
}

// write writes all of b, unless ctx ends before.
func (in *input) write(ctx context.Context, b []byte) (int, error) {
	if in.f == nil {
		return 0, ErrInputClosed
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	select {
	case <-in.free:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { in.free <- struct{}{} }()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = in.f.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err := in.f.Write(b)
	if !stop() {
		<-ended
		_ = in.f.SetWriteDeadline(time.Time{})
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, ctx.Err()
	case errors.Is(err, os.ErrClosed):
		return n, ErrInputClosed
	}
	return n, err
}

// Write writes all of b to the process's standard input, or to its terminal, and returns
// the number of written bytes. Concurrent writes do not mix: a Write waits for earlier
// ones. Write blocks while the pipe is full and the process does not read, until ctx or
// the process ends.
//
// It returns an [InputTooLargeError], or an [InputError] that wraps [ErrNotRunning],
// [ErrInputClosed], the error of ctx, or EPIPE if the process has closed its input.
func (p *Process) Write(ctx context.Context, b []byte) (int, error) {
	if limit := p.m.Limits().MaxInput; len(b) > limit {
		return 0, &InputTooLargeError{Size: len(b), Limit: limit}
	}
	n, err := p.input.write(ctx, b)
	if err == nil {
		return n, nil
	}
	switch {
	case p.failedByExit(ctx, err), errors.Is(err, syscall.EIO): // EIO: the terminal has hung up
		err = ErrNotRunning
	case errors.Is(err, syscall.EPIPE):
		err = fmt.Errorf("it has closed its input: %w", syscall.EPIPE)
	}
	return n, &InputError{Written: n, Size: len(b), Err: err}
}

// failedByExit reports whether a write failed because the process has ended or is about to,
// and then waits for Done. The process's end of the input closes before the process
// has ended, and this end closes before Done.
func (p *Process) failedByExit(ctx context.Context, err error) bool {
	closed := errors.Is(err, syscall.EPIPE) || p.info.Terminal // only the process's end closes a terminal
	select {
	case <-p.child.Done():
	default:
		if !closed || ctx.Err() != nil || !p.child.Ending() {
			return false
		}
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	return true
}

// CloseInput ends the process's standard input: the process reads an end of file after
// the written bytes. A running Write ends with [ErrInputClosed]. Further calls return
// nil.
//
// In a terminal, CloseInput types the end-of-file character (VEOF, termios(3)), which
// ends the input of programs that read lines, at the beginning of a line. It waits up to
// two seconds until the terminal accepts the character, and returns an [InputError] if it
// does not, or an [InvalidError] if the terminal has no such character.
//
// CloseInput returns [ErrNotRunning] if the process has ended, and [ErrInputClosed] if
// the process was started without an input.
func (p *Process) CloseInput() error {
	switch {
	case !p.Running():
		return ErrNotRunning
	case p.input.f == nil:
		return ErrInputClosed
	case p.info.Terminal:
		return p.typeEOF()
	}
	p.input.close()
	return nil
}
