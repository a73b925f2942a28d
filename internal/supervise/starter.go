package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A child of another user starts in two steps, because that user may send it signals. Between
// fork and execve(2) a child shares this program's memory (vfork(2)) and the Go runtime waits for
// it, so a signal such as SIGSTOP there would stop this program, too.
//
// The first step executes this program again, still as this program's user, with [starterName]
// as argument 0. This is the starter. In the second step the starter takes the other user's ids
// and executes the child's program. Its process id stays.

// starterName is argument 0 of a starter.
const starterName = "deskhand-starter"

const (
	startLimit  = 10 * time.Second // from the fork until the child's program is executed
	starterExit = 253              // exit status of a starter that fails
	executes    = "x"              // what a starter writes before it executes the child's program
)

// starterArgs is argument 1 of a starter, as JSON. The directory, the path and the arguments of
// the child's program follow it.
type starterArgs struct {
	Parent     int
	Status     int // the descriptor that takes executes, and the number of an error
	Credential syscall.Credential
}

// The starter runs in an init function, so that every program that imports this package has it,
// also one that embeds desktops.
func init() { //nolint:gochecknoinits // see above
	if len(os.Args) < 5 || os.Args[0] != starterName {
		return
	}
	var o starterArgs
	if err := json.Unmarshal([]byte(os.Args[1]), &o); err != nil {
		os.Exit(starterExit)
	}
	err := o.become(os.Args[2], os.Args[3], os.Args[4:])
	var number syscall.Errno
	errors.As(err, &number)
	_, _ = unix.Write(o.Status, []byte(strconv.Itoa(int(number))))
	os.Exit(starterExit)
}

// become executes a program as the user. It returns only after an error.
func (o starterArgs) become(dir, path string, argv []string) error {
	unix.CloseOnExec(o.Status)
	// The kernel ends the program with its parent only if this thread executes it.
	runtime.LockOSThread()
	// A new session keyring (keyrings(7)) replaces this program's, which may hold keys. It counts
	// for this program's user: the other one may have no quota left. A child that has no keyctl
	// cannot use keys either.
	_, _, _ = unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if err := setUser(o.Credential); err != nil {
		return err
	}
	// The change of the user has cleared the parent-death signal.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != o.Parent {
		return unix.ESRCH
	}
	if dir != "" {
		if err := unix.Chdir(dir); err != nil {
			return err
		}
	}
	if _, err := unix.Write(o.Status, []byte(executes)); err != nil {
		return err
	}
	return syscall.Exec(path, argv, revealed(os.Environ()))
}

// setUser changes the user and the groups of all threads. Threads that kept this program's user
// would share memory with one that the other user may be able to trace.
func setUser(c syscall.Credential) error {
	if !c.NoSetGroups {
		groups := make([]int, len(c.Groups))
		for i, g := range c.Groups {
			groups[i] = int(g)
		}
		if err := syscall.Setgroups(groups); err != nil {
			return err
		}
	}
	if err := syscall.Setresgid(int(c.Gid), int(c.Gid), int(c.Gid)); err != nil {
		return err
	}
	return syscall.Setresuid(int(c.Uid), int(c.Uid), int(c.Uid))
}

// hidden returns the environment of a starter for a child's environment. The names get a number
// and a colon in front, because people who are not trusted may choose variables such as LD_PRELOAD
// and GODEBUG. [GroupVariable] stays, which shows to whom the process belongs.
func hidden(env []string) []string {
	out := []string{"GOMAXPROCS=1"}
	for i, entry := range env {
		if !strings.HasPrefix(entry, GroupVariable+"=") {
			entry = strconv.Itoa(i) + ":" + entry
		}
		out = append(out, entry)
	}
	return out
}

// revealed undoes hidden.
func revealed(env []string) []string {
	out := make([]string, 0, len(env))
	for _, entry := range env {
		number, rest, _ := strings.Cut(entry, ":")
		if _, err := strconv.Atoi(number); err == nil {
			out = append(out, rest)
		} else if strings.HasPrefix(entry, GroupVariable+"=") {
			out = append(out, entry)
		}
	}
	return out
}

// forkAs is like forkExec, for a child of another user.
func (c *Child) forkAs(attr *syscall.ProcAttr) error {
	status, theirs, err := Pipe(ReadEnd)
	if err != nil {
		return err
	}
	defer status.Close()
	defer theirs.Close()
	o, err := json.Marshal(starterArgs{Parent: os.Getpid(), Status: len(attr.Files), Credential: *attr.Sys.Credential})
	if err != nil {
		return err
	}
	// The link leads to this program even if its file was replaced.
	starter := command{path: "/proc/self/exe", argv: append([]string{starterName, string(o), attr.Dir, c.command.path}, c.command.argv...)}
	attr.Files = append(attr.Files, theirs.Fd())
	attr.Env, attr.Dir, attr.Sys.Credential = hidden(attr.Env), "", nil
	if err := c.forkExec(starter, attr); err != nil {
		return err
	}
	_ = theirs.Close()
	if err := awaitStarter(status); err != nil {
		return c.discard(c.startError(err))
	}
	return nil
}

// awaitStarter waits until a starter has executed the child's program, which closes the pipe. It
// returns the starter's error, or an error if the starter has ended before. After startLimit the
// error wraps os.ErrDeadlineExceeded.
func awaitStarter(status *os.File) error {
	if err := status.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	text, err := io.ReadAll(status)
	if err != nil {
		return fmt.Errorf("the program was not executed within %s, perhaps because its user has stopped it: %w", startLimit, err)
	}
	failed, executed := strings.CutPrefix(string(text), executes)
	switch {
	case failed == "" && executed:
		return nil
	case failed == "":
		return errors.New("the process ended before the program was executed")
	}
	number, err := strconv.Atoi(failed)
	if err != nil || number == 0 {
		return fmt.Errorf("the start failed with error %q", text)
	}
	return syscall.Errno(number)
}

// discard kills a child whose program was not executed, and waits for its end. It returns cause,
// or a [LeftoverError] if the child does not end.
func (c *Child) discard(cause error) error {
	pid, gone := c.pid, make(chan struct{})
	_ = unix.Kill(pid, unix.SIGKILL)
	go func() {
		defer close(gone)
		_, _ = awaitExit(pid)
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		program.removeChild(c)
		program.forker.release()
	}()
	late := time.NewTimer(killWait)
	defer late.Stop()
	select {
	case <-gone:
		return cause
	case <-late.C:
		return fmt.Errorf("%s: %w", c.command.path, &LeftoverError{PIDs: []int{pid}})
	}
}
