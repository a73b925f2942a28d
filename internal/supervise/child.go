package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tries to execute a program that another process has open for writing.
const (
	busyTries = 10
	busyWait  = 20 * time.Millisecond
)

// Child is a process that a [Group] started.
type Child struct {
	group   *Group
	id      string
	number  uint64
	name    string
	command command
	logPath string
	grace   time.Duration
	tty     bool
	pid     int
	since   uint64 // ticks; older than every process that the child started
	started time.Time
	pumps   []*pump
	sink    *sink
	done    chan struct{}

	mu     sync.Mutex
	exit   Exit
	over   bool // the process has ended
	reaped bool // its id may belong to another process
	holds  int  // callers that keep the id from being reused
	termed bool // its process group got SIGTERM
	hung   hangUp
	cpu    time.Duration // used by the child; set when it was waited for
}

// Exit describes how a process ended.
type Exit struct {
	Code   int            // exit status, or -1 if a signal killed it
	Signal syscall.Signal // the signal that killed it, or 0
	At     time.Time
}

// String returns "exit status 3" or "killed by SIGTERM".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "killed by " + unix.SignalName(e.Signal)
	}
	return "exit status " + strconv.Itoa(e.Code)
}

// Info describes a child for lists.
type Info struct {
	ID, Name, Owner string
	PID             int
	Running         bool
	Exit            Exit // the zero value while it runs
	Path            string
	Args            []string // the first 4 KiB, without the program's name
	Started, Ended  time.Time
	LogPath         string
	Number          uint64 // of ID; numbers increase in the order of starts
}

// spawn starts a child and its goroutines.
func (g *Group) spawn(s Spec) (*Child, error) {
	cmd, err := s.resolve()
	if err != nil {
		s.closeMaster()
		return nil, err
	}
	st, err := s.open()
	if err != nil {
		return nil, err
	}
	defer st.closeOurs()
	c := &Child{
		group: g, name: s.title(), command: cmd, logPath: s.LogPath, grace: s.Grace,
		tty: s.TTY != nil, pumps: st.pumps, sink: st.sink, done: make(chan struct{}),
	}
	c.grace = max(0, cmp.Or(c.grace, g.cfg.Grace))
	err = c.fork(s, st)
	for try := 0; errors.Is(err, syscall.ETXTBSY) && try < busyTries; try++ {
		// If this program has just written the file, another fork may hold its
		// descriptor until exec.
		<-time.After(busyWait)
		err = c.fork(s, st)
	}
	if err != nil {
		st.abandon()
		return nil, err
	}
	c.command.argv, c.command.env = nil, nil // frees memory: records of ended children are kept
	g.keep(c)
	go c.pump()
	go c.watch()
	return c, nil
}

// fork makes the process. Its id is in the registry before Reap can wait for it.
func (c *Child) fork(s Spec, st *streams) error {
	attr := &syscall.ProcAttr{
		Dir:   s.Dir,
		Files: st.fds(),
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	// Another user's process must not share this program's terminal: it could type
	// into the shell there (TIOCSTI). A session leader also leads its process group.
	attr.Sys.Setsid = s.TTY != nil || s.Credential != nil
	attr.Sys.Setpgid = !attr.Sys.Setsid
	attr.Sys.Setctty = s.TTY != nil // of descriptor 0
	attr.Sys.Credential = c.group.mark.credential(s.Credential)
	if s.Cgroup == nil && s.Credential != nil {
		s.Cgroup = c.group.usersCgroup()
	}
	if s.Cgroup != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(s.Cgroup.Fd())
	}
	since, err := ticks()
	if err != nil {
		return err
	}
	if err := checkRoom(); err != nil {
		return err
	}
	c.since = since
	c.number = program.number()
	c.id = "proc_" + strconv.FormatUint(c.number, 10)
	attr.Env = c.environ()
	unignoreSignals()
	if s.Credential != nil {
		err = c.forkAs(attr)
	} else if err = c.forkExec(c.command, attr); err == nil {
		limitTasks(c.pid)
	}
	runtime.KeepAlive(st)
	runtime.KeepAlive(s)
	return err
}

// forkExec makes the process, which executes cmd.
func (c *Child) forkExec(cmd command, attr *syscall.ProcAttr) (err error) {
	program.forker.acquire()
	program.spawn.RLock()
	defer program.spawn.RUnlock()
	program.forker.do(func() {
		c.started = time.Now()
		c.pid, err = syscall.ForkExec(cmd.path, cmd.argv, attr)
		if err != nil && attr.Sys.UseCgroupFD {
			c.pid, err = forkAndMove(cmd, attr)
		}
		if err == nil {
			raiseOOMScore(c.pid)
		}
	})
	if err != nil {
		program.forker.release()
		return c.startError(err)
	}
	program.addChild(c)
	return nil
}

// startError describes an error of fork or of the execution of the child's program.
func (c *Child) startError(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		err = fmt.Errorf("%w (%w)", ErrNoRoom, err)
	}
	return &os.PathError{Op: "fork/exec", Path: c.command.path, Err: err}
}

// forkAndMove is the fallback when the kernel cannot start a child directly in its
// control group. It moves the child there after the fork, without processes that the
// child has started by then. If the group was not the reason, it returns the same error.
func forkAndMove(cmd command, attr *syscall.ProcAttr) (pid int, err error) {
	fd := attr.Sys.CgroupFD
	attr.Sys.UseCgroupFD = false
	defer func() { attr.Sys.UseCgroupFD = true }()
	if pid, err = syscall.ForkExec(cmd.path, cmd.argv, attr); err != nil {
		return 0, err
	}
	procs, err := unix.Openat(fd, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return pid, nil // not a group, or no right to it: the child runs outside
	}
	_, _ = unix.Write(procs, []byte(strconv.Itoa(pid)))
	_ = unix.Close(procs)
	return pid, nil
}

// discardedSignals receives the signals that [unignoreSignals] handles. Nothing reads it,
// so they still do not end this program.
var discardedSignals = make(chan os.Signal, 1)

// unignoreSignals makes children receive SIGHUP and SIGINT. This program ignores them if it
// was started by nohup or by a script in the background. Children would inherit that, and
// Ctrl-C would do nothing in their terminals. It handles these signals instead: signals that
// a program handles have their default action in its children.
func unignoreSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(discardedSignals, s)
		}
	}
}

// tag returns the tag in the environment of the child and of processes that it starts.
func (c *Child) tag() tag {
	return tag{text: c.group.token + "." + strconv.FormatUint(c.number, 10), since: c.since}
}

// pump forwards the child's output until no process has the other ends open.
func (c *Child) pump() {
	run := func(p *pump) {
		p.run()
		c.group.forget(p)
	}
	var wg sync.WaitGroup
	last := len(c.pumps) - 1
	for i, p := range c.pumps {
		if i < last {
			wg.Go(func() { run(p) })
		} else {
			run(p) // saves a goroutine
		}
	}
	wg.Wait()
	program.closeLog(c.sink.log)
}

// watch waits for the child's end and publishes it.
func (c *Child) watch() {
	exit, reaped := awaitExit(c.pid)
	for _, p := range c.pumps {
		p.drain()
	}
	c.mu.Lock()
	c.exit, c.over = exit, true
	if reaped {
		c.markReaped()
	}
	c.reap()
	c.mu.Unlock()
	program.forker.release()
	c.group.cfg.Logger.Debug("a process ended", "id", c.id, "name", c.name, "pid", c.pid, "exit", exit.String())
	close(c.done)
	c.group.prune()
}

// awaitExit waits until the child has ended, and leaves it a zombie, so that its id is
// not reused. reaped reports that other code has waited for it.
//
// It waits through a pidfd and the runtime's poller, which costs no thread, or in
// waitid if the kernel has no pidfds.
func awaitExit(pid int) (exit Exit, reaped bool) {
	flags := unix.WNOHANG
	wait := func() bool {
		var ended bool
		exit, ended, reaped = peek(pid, flags)
		return ended || reaped
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil && unix.SetNonblock(fd, true) == nil {
		f := os.NewFile(uintptr(fd), "pidfd")
		defer f.Close()
		if conn, err := f.SyscallConn(); err == nil {
			if err := conn.Read(func(uintptr) bool { return wait() }); err == nil {
				return exit, reaped
			}
		}
	} else if err == nil {
		_ = unix.Close(fd)
	}
	flags = 0
	wait()
	return exit, reaped
}

// siginfo is the part of the kernel's siginfo_t that waitid(2) fills.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
}

// peek returns how a child has ended and leaves it a zombie. lost reports that this
// program has no such child.
func peek(pid, flags int) (exit Exit, ended, lost bool) {
	var raw unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &raw, unix.WEXITED|unix.WNOWAIT|flags, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Exit{Code: -1, At: time.Now()}, false, true
		}
		break
	}
	if raw.Signo == 0 {
		return Exit{}, false, false // WNOHANG, and it runs
	}
	const exited = 1 // CLD_EXITED; other codes are deaths by signal
	info := (*siginfo)(unsafe.Pointer(&raw))
	exit = Exit{Code: -1, At: time.Now()}
	if info.code == exited {
		exit.Code = int(info.status)
	} else {
		exit.Signal = syscall.Signal(info.status)
	}
	return exit, true, false
}

// hold keeps the child's id from being reused until release. It returns false if the child
// was already waited for.
func (c *Child) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return false
	}
	c.holds++
	return true
}

func (c *Child) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds--
	c.reap()
}

// reap waits for an ended child unless its id is held. The caller holds c.mu.
func (c *Child) reap() {
	if !c.over || c.reaped || c.holds > 0 {
		return
	}
	var used unix.Rusage
	for {
		_, err := unix.Wait4(c.pid, nil, unix.WNOHANG, &used)
		if err != unix.EINTR {
			break
		}
	}
	c.cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	c.markReaped()
}

// markReaped removes the child from the registry. The caller holds c.mu.
func (c *Child) markReaped() {
	c.reaped = true
	program.removeChild(c)
}

// signalGroup signals the child's process group.
func (c *Child) signalGroup(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	err := unix.Kill(-c.pid, sig)
	if err == unix.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

// term sends SIGTERM to the process group once, because many programs exit without
// cleaning up at a second one. SIGCONT lets stopped processes handle it.
func (c *Child) term() {
	c.mu.Lock()
	again := c.termed
	c.termed = true
	c.mu.Unlock()
	if !again {
		_ = c.signalGroup(syscall.SIGTERM)
		_ = c.signalGroup(syscall.SIGCONT)
	}
}

// ID returns the child's identifier, such as "proc_7". It is unique in this program, and
// the numbers increase.
func (c *Child) ID() string { return c.id }

// Owner returns the owner of the child's group.
func (c *Child) Owner() string { return c.group.cfg.Owner }

// Name returns the name of the Spec.
func (c *Child) Name() string { return c.name }

// PID returns the process id. After Done it may belong to another process.
func (c *Child) PID() int { return c.pid }

// Done is closed when the process has ended and its output was forwarded. It does not
// wait for processes that the child started. It waits at most half a second for a Write
// that blocks.
func (c *Child) Done() <-chan struct{} { return c.done }

func (c *Child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Exit returns how the process ended, and the zero value before Done.
func (c *Child) Exit() Exit {
	if !c.ended() {
		return Exit{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// Tail returns the last 8 KiB of the child's output, for error messages.
func (c *Child) Tail() string { return c.sink.text() }

// Signal sends a signal to the child's process group. It returns os.ErrProcessDone if
// the child has ended.
func (c *Child) Signal(sig syscall.Signal) error {
	if c.ended() {
		return fmt.Errorf("signal %s: %w", c.name, os.ErrProcessDone)
	}
	if err := c.signalGroup(sig); err != nil {
		return fmt.Errorf("signal %s: %w", c.name, err)
	}
	return nil
}

// Stop ends the child and the processes that it started, even if the child itself has
// ended: SIGTERM, and SIGHUP if the child has a terminal and ignores SIGTERM, then
// SIGKILL after its grace, or as soon as ctx ends. It returns when no process is left,
// or a [LeftoverError] five seconds after SIGKILL. It does not return the error of ctx.
func (c *Child) Stop(ctx context.Context) error { return c.StopWithin(ctx, c.grace) }

// StopWithin is like Stop with a grace that replaces the child's.
func (c *Child) StopWithin(ctx context.Context, grace time.Duration) error {
	err := endChildren(ctx, []*Child{c}, c.tag(), grace)
	if err != nil {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	<-c.done
	return nil
}

// Since returns the child's output after the first n bytes, of which at least the last
// 8 KiB are kept, the total number of bytes, and a channel that is closed when there is
// more. Output to a file, a [Filler] or a terminal that the caller reads does not count.
func (c *Child) Since(n int64) (output []byte, total int64, changed <-chan struct{}) {
	return c.sink.since(n)
}

// Forget removes an ended child from the list of its group. It reports whether it did.
func (c *Child) Forget() bool { return c.group.drop(c) }

// Info describes the child.
func (c *Child) Info() Info {
	i := Info{
		ID: c.id, Name: c.name, Owner: c.group.cfg.Owner, PID: c.pid, Running: !c.ended(),
		Path: c.command.path, Args: c.command.args, Started: c.started, LogPath: c.logPath, Number: c.number,
	}
	if !i.Running {
		i.Exit = c.Exit()
		i.Ended = i.Exit.At
	}
	return i
}
