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

// daemon is a server in the background, by its files. A running server holds a lock
// on the file with its process id from before its start until its end. The lock, not
// the id, shows that it runs.
type daemon struct {
	address     string // host:port
	pidFile     string
	versionFile string
	identity    string // file that distinguishes the process from others with its id
	log         string
	lastLog     string // of the previous server
}

// errRunning says that a server holds the lock.
var errRunning = errors.New("it is already running")

func newDaemon(dir, host string, port uint16) *daemon {
	host = strings.Trim(host, "[]")
	// A slash in the host must not lead out of dir.
	base := filepath.Join(dir, fmt.Sprintf("daemon-%s-%d", strings.ReplaceAll(host, "/", "_"), port))
	return &daemon{net.JoinHostPort(host, strconv.Itoa(int(port))), base + ".pid", base + ".version", base + ".start", base + ".log", base + ".log.1"}
}

// claim takes the lock. It returns errRunning if a server has it.
func (d *daemon) claim() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(d.pidFile), 0o700); err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	return d.lock(os.O_RDWR | os.O_CREATE)
}

func (d *daemon) lock(flag int) (*os.File, error) {
	f, err := os.OpenFile(d.pidFile, flag, 0o600)
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
	if !d.isPIDFile(f) { // it was removed between the two calls
		return nil, cmp.Or(f.Close(), fmt.Errorf("daemon %s: %w", d.address, errChanged))
	}
	return f, nil
}

// errChanged says that another program is starting or ending the daemon.
var errChanged = errors.New("another program is starting or ending it; try again")

// isPIDFile reports whether an open file is the present pidFile.
func (d *daemon) isPIDFile(f *os.File) bool {
	mine, err1 := f.Stat()
	now, err2 := os.Stat(d.pidFile)
	return err1 == nil && err2 == nil && os.SameFile(mine, now)
}

// running reports whether the server runs.
func (d *daemon) running() bool {
	f, err := d.lock(os.O_RDWR)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, errRunning)
}

// record writes the files of a started server. It keeps the inode of pidFile, which
// is locked.
func (d *daemon) record(pid int, version string) error {
	return errors.Join(
		os.WriteFile(d.pidFile, []byte(strconv.Itoa(pid)+"\n"), 0o600),
		os.WriteFile(d.versionFile, []byte(version+"\n"), 0o600),
		os.WriteFile(d.identity, []byte(identify(pid)+"\n"), 0o600),
	)
}

// pid returns the id of the server's process, or 0.
func (d *daemon) pid() int {
	text, err := os.ReadFile(d.pidFile)
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

// openLog begins a new log. It may hold the token, so only this user can read it.
func (d *daemon) openLog() (*os.File, error) {
	if err := os.Rename(d.log, d.lastLog); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("daemon's log: %w", err)
	}
	f, err := os.OpenFile(d.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("daemon's log: %w", err)
	}
	return f, nil
}

// daemonEnd is how long a server may take to end everything that it started.
const daemonEnd = 15 * time.Second

// end ends the server and waits for it: SIGTERM, after a while SIGKILL.
func (d *daemon) end(ctx context.Context) error {
	pid := d.pid()
	if pid == 0 {
		if !d.running() {
			return d.forget()
		}
		return fmt.Errorf("%s does not hold the id of the process that locks it; the process may be starting: try again", d.pidFile)
	}
	// If the lock is held after the handle was opened, the handle's process is the
	// server: an id is not used again before its process ends.
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
		return fmt.Errorf("process %d does not lock %s, but another process does; end that process by hand", pid, d.pidFile)
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
	return fmt.Errorf("process %d did not end after SIGKILL", pid)
}

// isServer reports whether a process is the recorded server. No other process has both
// its id and its start time.
func (d *daemon) isServer(pid int) bool {
	text, err := os.ReadFile(d.identity)
	is := identify(pid)
	return err == nil && is != "" && is == strings.TrimSpace(string(text))
}

// identify returns the id and the start time of a process (field 22 of
// proc_pid_stat(5)), or "" if there is none.
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

// waitEnd waits for the end of a process, which makes its handle readable
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

// forget removes the files of a server that has ended, except its log. A program
// that is starting another server has the lock, and forget then removes nothing.
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
	for _, file := range []string{d.versionFile, d.identity, d.pidFile} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lockVariable is the environment variable that holds the number of the file
// descriptor with the lock.
const lockVariable = "DESKHAND_DAEMON_LOCK"

// keepLock keeps children from inheriting the lock and its variable.
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
