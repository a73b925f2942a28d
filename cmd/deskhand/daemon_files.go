package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// daemon is a server in the background, by its files. The one that runs holds a
// lock on the file with its number, from before its start until its end, however
// it ends: that, and not the number, tells that it runs.
type daemon struct {
	address      string // host:port
	number       string // file with the process number
	versionFile  string
	identity     string // file that tells the process from others that had its number
	log          string
	lastFinished string // the log of the one before
}

// errRunning says that somebody holds the lock.
var errRunning = errors.New("it runs already")

func newDaemon(dir, host string, port uint16) *daemon {
	host = strings.Trim(host, "[]")
	// A host may hold a slash only by mistake; it shall not lead out of dir.
	base := filepath.Join(dir, fmt.Sprintf("daemon-%s-%d", strings.ReplaceAll(host, "/", "_"), port))
	return &daemon{net.JoinHostPort(host, strconv.Itoa(int(port))), base + ".pid", base + ".version", base + ".start", base + ".log", base + ".log.1"}
}

// claim takes the lock. The error is errRunning when somebody has it.
func (d *daemon) claim() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(d.number), 0o700); err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	return d.lock(os.O_RDWR | os.O_CREATE)
}

func (d *daemon) lock(flag int) (*os.File, error) {
	f, err := os.OpenFile(d.number, flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errRunning
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("daemon %s: %w", d.address, err), f.Close())
	}
	if !d.isNumber(f) { // it was removed between the two calls
		return nil, cmp.Or(f.Close(), fmt.Errorf("daemon %s: %w", d.address, errChanged))
	}
	return f, nil
}

// errChanged says that somebody else starts or ends the daemon at this moment.
var errChanged = errors.New("it is being started or ended by somebody else; try again")

// isNumber tells whether an open file is the one that has the name now.
func (d *daemon) isNumber(f *os.File) bool {
	mine, err1 := f.Stat()
	now, err2 := os.Stat(d.number)
	return err1 == nil && err2 == nil && os.SameFile(mine, now)
}

// running tells whether the server runs.
func (d *daemon) running() bool {
	f, err := d.lock(os.O_RDWR)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, errRunning)
}

// record writes down what was started. The file with the number is not
// replaced: it is the one that is locked.
func (d *daemon) record(pid int, version string) error {
	return errors.Join(
		os.WriteFile(d.number, []byte(strconv.Itoa(pid)+"\n"), 0o600),
		os.WriteFile(d.versionFile, []byte(version+"\n"), 0o600),
		os.WriteFile(d.identity, []byte(identify(pid)+"\n"), 0o600),
	)
}

// pid is the number of the server's process; zero: it is not known.
func (d *daemon) pid() int {
	text, err := os.ReadFile(d.number)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n <= 1 {
		return 0
	}
	return n
}

func (d *daemon) version() string {
	text, err := os.ReadFile(d.versionFile)
	if err != nil {
		return "unknown"
	}
	return cmp.Or(strings.TrimSpace(string(text)), "unknown")
}

// openLog begins a new log. It may hold the token, and so is for this user
// alone.
func (d *daemon) openLog() (*os.File, error) {
	if err := os.Rename(d.log, d.lastFinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("daemon's log: %w", err)
	}
	f, err := os.OpenFile(d.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("daemon's log: %w", err)
	}
	return f, nil
}

// daemonEnd is how long a server may take to end all that it started.
const daemonEnd = 15 * time.Second

// end ends the server and waits for that: SIGTERM, after a while SIGKILL.
func (d *daemon) end(ctx context.Context) error {
	pid := d.pid()
	if pid == 0 {
		if !d.running() {
			return d.forget()
		}
		return fmt.Errorf("%s does not tell the number of the process that holds it; it may be starting: try again", d.number)
	}
	// The process that the handle means is the server if the lock is held after
	// the handle was opened: a number is not used again before its process ends.
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) && !d.running() {
		return d.forget()
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer unix.Close(handle)
	if !d.running() {
		return d.forget()
	}
	if !d.isServer(pid) {
		return fmt.Errorf("process %d does not hold %s, though some process does; end that by hand", pid, d.number)
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.PidfdSendSignal(handle, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end process %d: %w", pid, err)
		}
		ended, err := waitEnd(ctx, handle)
		if err != nil {
			return err
		}
		if ended {
			return d.forget()
		}
	}
	return fmt.Errorf("process %d does not end, even by SIGKILL", pid)
}

// isServer reports whether a process is the one that the record describes. No
// other process has both its number and its start time.
func (d *daemon) isServer(pid int) bool {
	text, err := os.ReadFile(d.identity)
	is := identify(pid)
	return err == nil && is != "" && is == strings.TrimSpace(string(text))
}

// identify returns the number and the start time of a process (field 22 of
// proc_pid_stat(5)), empty if there is none.
func identify(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fmt.Sprintf("%d %s", pid, fields[19])
}

// waitEnd waits for the end of a process. A handle is readable then
// (pidfd_open(2)).
func waitEnd(ctx context.Context, handle int) (ended bool, err error) {
	const step = 100 * time.Millisecond
	for begun := time.Now(); time.Since(begun) < daemonEnd; {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(step.Milliseconds())) //nolint:gosec // a descriptor
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("wait for the end: %w", err)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

// forget removes the number and the version of a server that has ended. The log
// stays. Who starts another at this moment has the lock, and so keeps its files.
func (d *daemon) forget() error {
	f, err := d.lock(os.O_RDWR)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errRunning):
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	var errs []error
	for _, file := range []string{d.versionFile, d.identity, d.number} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lockVariable is the environment variable by which a server in the background
// is told which of its file descriptors is the lock.
const lockVariable = "DESKHAND_DAEMON_LOCK"

// keepLock keeps the lock from what the server starts, and its variable, too.
func keepLock() error {
	text, ok := os.LookupEnv(lockVariable)
	if !ok {
		return nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return fmt.Errorf("%s is %q", lockVariable, text)
	}
	syscall.CloseOnExec(fd)
	return os.Unsetenv(lockVariable)
}
