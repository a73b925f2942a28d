package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Detached is a program that was started to go on without this one.
type Detached struct {
	pid  int
	done chan struct{}
	end  *os.ProcessState // read after done
}

// Detach starts a program in a session of its own. It is the one exception from
// the rule that children do not outlive this program, for the command that puts
// a server into the background: nothing else may use it. Standard input is
// /dev/null, output what is given, extra become file descriptors 3, 4, ...
func Detach(path string, args, env []string, output *os.File, extra ...*os.File) (*Detached, error) {
	cmd := exec.Command(path, args...) //nolint:noctx // it goes on when the caller has ended
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = env, output, output, extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	d := &Detached{pid: cmd.Process.Pid, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the state has it
		d.end = cmd.ProcessState
		close(d.done)
	}()
	return d, nil
}

// PID returns the process number.
func (d *Detached) PID() int { return d.pid }

// Done is closed when the program has ended, should this one live to see it.
func (d *Detached) Done() <-chan struct{} { return d.done }

// String tells how it ended, after Done.
func (d *Detached) String() string { return d.end.String() }
