package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// Launch describes the start of an agent: a program, or a function of this program.
type Launch struct {
	Version string
	Path    string   // as in supervise.Spec; relative to Dir or, if that is empty, to this program's directory
	Args    []string // without the program's name
	Env     []string // added to the host's environment

	// Dir is the working directory, in which the agent may find configuration. Empty: HOME of
	// the agent's environment, or "/" if the agent's user cannot enter that.
	Dir string

	// Run, if set, is the agent. It reads messages from in and writes to out, until the
	// end of in or of ctx.
	Run func(ctx context.Context, in io.Reader, out io.Writer) error
}

const (
	eofWait  = 1500 * time.Millisecond // between the end of the input and SIGTERM
	termWait = 2 * time.Second         // between SIGTERM and SIGKILL
	leftWait = 2 * time.Second         // between the end of all processes and of the output
)

// childProcess is the program of an agent, or the function that stands for one.
type childProcess struct {
	in     io.WriteCloser // the end of this program
	out    io.ReadCloser
	pid    int
	done   <-chan struct{} // closed at the end of the process; its output may have unread parts
	exit   func() exitStatus
	stderr func() string
	kill   func(ctx context.Context) error // ends the agent and the processes that it has started
	stop   sync.Once
}

// exitStatus is the exit status of an agent. Both members are empty if it is unknown.
type exitStatus struct {
	code   *int
	signal string
}

func (e exitStatus) success() bool { return e.code != nil && *e.code == 0 }

// startBuiltin runs an agent that is a function of this program.
func startBuiltin(l Launch) *childProcess {
	ctx, cancel := context.WithCancel(context.Background())
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	done := make(chan struct{})
	p := &childProcess{in: in, out: out, pid: os.Getpid(), done: done}
	var result error
	go func() { // owned by p: ends after kill, or the end of its input
		defer close(done)
		defer cancel()
		result = runGuarded(ctx, l, theirIn, theirOut)
		_ = theirIn.Close()
		_ = theirOut.Close()
	}()
	p.stderr = func() string {
		if isClosed(done) && result != nil {
			return result.Error()
		}
		return ""
	}
	p.exit = func() exitStatus {
		code := 0
		if result != nil {
			code = 1
		}
		return exitStatus{code: &code}
	}
	p.kill = func(context.Context) error {
		cancel()
		_ = theirIn.CloseWithError(context.Canceled)
		_ = theirOut.Close()
		<-p.done
		return nil
	}
	return p
}

// runGuarded runs a built-in agent and returns its panic as an error.
func runGuarded(ctx context.Context, l Launch, in io.Reader, out io.Writer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return l.Run(ctx, in, out)
}

// end closes the agent's input, waits up to eofWait, and then ends the agent with all
// processes that it has started. It waits for their end.
func (p *childProcess) end() error {
	var err error
	p.stop.Do(func() {
		_ = p.in.Close()
		t := time.NewTimer(eofWait)
		defer t.Stop()
		select {
		case <-p.done:
		case <-t.C:
		}
		err = p.kill(context.Background())
	})
	return err
}

// isBrokenPipe reports whether a write failed because the agent has closed its input.
func isBrokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
