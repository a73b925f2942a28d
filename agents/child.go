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

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// Launch says how to start an agent: a program, or a function of this one.
type Launch struct {
	Version string
	Path    string   // as of supervise.Spec
	Args    []string // without the program's name
	Env     []string // added to the host's
	Dir     string   // empty: this program's

	// Run, if set, is the agent: it reads messages from in and writes to out
	// until in ends, or ctx does.
	Run func(ctx context.Context, in io.Reader, out io.Writer) error
}

const (
	eofWait  = 1500 * time.Millisecond // what an agent gets to end by itself once its input has
	termWait = 2 * time.Second         // between SIGTERM and SIGKILL
	// leftWait is how long output is waited for once nothing that the agent
	// started is left.
	leftWait = 2 * time.Second
)

// childProcess is the program of an agent, or the function that stands for one.
type childProcess struct {
	in     io.WriteCloser // ours
	out    io.ReadCloser
	pid    int
	done   chan struct{} // it has ended; what it wrote may not have been read yet
	exit   func() ended
	stderr func() string
	kill   func(ctx context.Context) error // ends it and what it started
	stop   sync.Once
}

// ended tells how an agent ended.
type ended struct {
	code   *int
	signal string
}

func (e ended) success() bool { return e.code != nil && *e.code == 0 }

// pipe makes a pipe whose one end is ours, which is the one that does not block:
// programs do not expect that of theirs.
func pipe(ours int) (mine, theirs *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(p[ours], true); err != nil {
		_ = unix.Close(p[0])
		_ = unix.Close(p[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(p[ours]), "agent"), os.NewFile(uintptr(p[1-ours]), "agent"), nil
}

func (h *Host) startChild(name string, l Launch, env []string) (*childProcess, error) {
	if l.Run != nil {
		return startBuiltin(l), nil
	}
	if err := h.user.CanStart(l.Path, l.Args); err != nil {
		return nil, fmt.Errorf("%w; what npm installs is below $XDG_DATA_HOME of this program", err)
	}
	in, theirIn, err := pipe(1)
	if err != nil {
		return nil, err
	}
	out, theirOut, err := pipe(0)
	if err != nil {
		return nil, errors.Join(err, in.Close(), theirIn.Close())
	}
	group := h.groups.add()
	c, err := h.group.Start(supervise.Spec{
		Name: name, Path: l.Path, Args: l.Args, Env: env, Dir: l.Dir, Stdin: theirIn, Stdout: theirOut,
		Credential: h.user.Credential, Grace: termWait, Cgroup: group.fd(),
	})
	err = errors.Join(err, theirIn.Close(), theirOut.Close(), group.begun())
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close(), group.end())
	}
	return &childProcess{
		in: in, out: out, pid: c.PID(), done: childDone(c), stderr: c.Tail,
		kill: func(ctx context.Context) error { return errors.Join(h.stop(ctx, c), group.end()) },
		exit: func() ended {
			e := c.Exit()
			if e.Signal != 0 {
				return ended{signal: unix.SignalName(e.Signal)}
			}
			return ended{code: &e.Code}
		},
	}, nil
}

func childDone(c *supervise.Child) chan struct{} {
	done := make(chan struct{})
	go func() { // ends with the child, which Group.Close ends
		defer close(done)
		<-c.Done()
	}()
	return done
}

// startBuiltin runs an agent that is a part of this program. No pipes of the
// system's are needed: they would cost more than such an agent does.
func startBuiltin(l Launch) *childProcess {
	ctx, cancel := context.WithCancel(context.Background())
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	p := &childProcess{in: in, out: out, pid: os.Getpid(), done: make(chan struct{})}
	var result error
	go func() { // owned by p: ends after kill, or the end of its input
		defer close(p.done)
		defer cancel()
		result = runGuarded(ctx, l, theirIn, theirOut)
		_ = theirIn.Close()
		_ = theirOut.Close()
	}()
	p.stderr = func() string {
		select {
		case <-p.done:
			if result != nil {
				return result.Error()
			}
		default:
		}
		return ""
	}
	p.exit = func() ended {
		code := 0
		if result != nil {
			code = 1
		}
		return ended{code: &code}
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

// runGuarded keeps a panic of a built-in agent from ending the program.
func runGuarded(ctx context.Context, l Launch, in io.Reader, out io.Writer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return l.Run(ctx, in, out)
}

// end closes the agent's input, gives it a moment, and then ends it with all
// that it started. It returns when nothing of it is left.
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

// broken tells whether a write failed because the agent reads no more.
func broken(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
