package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Detached is a program that outlives this one.
type Detached struct {
	pid  int
	done chan struct{}
	end  *os.ProcessState // read after done
}

// Detach starts a program in a new session, with output as its standard output and error,
// and returns without waiting for it. A nil env is this program's environment. Standard
// input is /dev/null, and extra become file descriptors 3, 4, ...
//
// Detach is the only exception to the rule that children do not outlive this program.
// Only the command that starts a server in the background may use it.
func Detach(path string, args, env []string, output *os.File, extra ...*os.File) (*Detached, error) {
	cmd := exec.Command(path, args...) //nolint:noctx // it outlives the caller
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = env, output, output, extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	d := &Detached{pid: cmd.Process.Pid, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // ProcessState holds the outcome
		d.end = cmd.ProcessState
		close(d.done)
	}()
	return d, nil
}

// PID returns the process id.
func (d *Detached) PID() int { return d.pid }

// Done is closed when the program has ended.
func (d *Detached) Done() <-chan struct{} { return d.done }

// String returns how the program ended. It must be called after Done.
func (d *Detached) String() string { return d.end.String() }
