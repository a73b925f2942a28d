package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// announceTime is how long a program has to announce that it is closing, or to
	// disappear after it was killed.
	announceTime = time.Second
	// closeTime is longer than a program takes to close.
	closeTime = 30 * time.Second
	lockPoll  = 20 * time.Millisecond
)

// dirLock is the lock of a state directory.
type dirLock struct {
	file   *os.File
	holder holder
}

// holder is the content of the lock file: the program that has the directory, and the
// names of programs that had it.
type holder struct {
	PID    int      `json:"pid"`
	Ending bool     `json:"ending,omitempty"`
	Names  []string `json:"names,omitempty"` // Config.StateName of each, the latest last
}

// maxNames is the largest length of holder.Names.
const maxNames = 64

// lockDir locks a directory. The kernel releases the lock when this program dies.
func lockDir(dir, name string, log *slog.Logger) (*dirLock, error) {
	if err := makePrivate(dir, log); err != nil {
		return nil, fmt.Errorf("make state directory %s private: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	l := &dirLock{f, readHolder(dir)}
	l.holder.PID, l.holder.Ending = os.Getpid(), false
	if name != "" {
		l.holder.Names = append(slices.DeleteFunc(l.holder.Names, func(s string) bool { return s == name }), name)
		l.holder.Names = l.holder.Names[max(0, len(l.holder.Names)-maxNames):]
	}
	l.write()
	return l, nil
}

// makePrivate makes a directory that only this user can enter. If the directory exists,
// it removes the permissions of other users. It refuses a directory that is meant for
// several users, such as /tmp.
func makePrivate(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, who could change its files; choose another directory, or run chown as root", owner.Uid)
	}
	switch {
	case info.Mode().Perm()&0o077 == 0:
		return nil
	case info.Mode()&os.ModeSticky != 0:
		return fmt.Errorf("several users share it (mode %v); choose a directory in it, such as %s", info.Mode(), filepath.Join(dir, "deskhand"))
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("it is open to other users (mode %v), and its mode cannot be changed: %w; run chmod 700 as its owner, or choose another directory",
			info.Mode(), err)
	}
	log.Warn("the state directory was open to other users; its mode is 0700 now", "directory", dir, "mode", info.Mode().String())
	return nil
}

// write writes the holder into the lock file. The lock holds even if that fails, as on
// a full disk: other programs only know less.
func (l *dirLock) write() {
	text, err := json.Marshal(l.holder)
	if err != nil { // cannot be
		return
	}
	if n, err := l.file.WriteAt(append(text, '\n'), 0); err == nil {
		_ = l.file.Truncate(int64(n))
	}
}

// readHolder reads the lock file of a directory. Unknown fields are zero.
func readHolder(dir string) (h holder) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return h
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return holder{} // it is being written, or of an earlier version
	}
	return h
}

// inUse reports whether a program has a directory. It takes a shared lock for a moment:
// a program that claims the directory just then tries again (waitForLock).
func inUse(dir string) bool {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return errors.Is(err, syscall.EWOULDBLOCK)
	}
	_ = syscall.Flock(fd, syscall.LOCK_UN) // see release
	return false
}

// release unlocks the directory. Closing the file is not enough: a child process
// between fork and exec has it open, too.
func (l *dirLock) release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// waitForLock is lockDir that waits for a program which is closing.
func (d *StateDir) waitForLock(dir string) (*dirLock, error) {
	limit := time.NewTimer(closeTime)
	defer limit.Stop()
	begun, logged := time.Now(), false
	for {
		l, err := lockDir(dir, d.ownName, d.log)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return l, err
		}
		h := readHolder(dir)
		if h.Ending && !logged {
			d.log.Info("waits until the server ends that uses the state directory", "directory", dir, "process", h.PID, "most", closeTime)
			logged = true
		}
		if !h.Ending && time.Since(begun) > announceTime {
			return nil, &inUseError{dir, h}
		}
		select {
		case <-time.After(lockPoll):
		case <-limit.C:
			return nil, &inUseError{dir, h}
		case <-d.closing:
			return nil, ErrClosed
		}
	}
}

// inUseError is ErrInUse with the directory and the program that has it.
type inUseError struct {
	dir    string
	holder holder
}

func (e *inUseError) Error() string {
	process := ""
	if e.holder.PID != 0 {
		process = fmt.Sprintf(", process %d", e.holder.PID)
	}
	return fmt.Sprintf("%v: %s%s; end that one or choose another directory", ErrInUse, e.dir, process)
}

func (e *inUseError) Unwrap() error { return ErrInUse }

// lock locks the usual directory or, if another program has that and Config.StateDir is
// empty, the one of Config.StateName. A program keeps using the directory that it used
// before, or it would no longer see its sessions.
func (d *StateDir) lock() (location, *dirLock, error) {
	at := d.location()
	l, err := d.waitForLock(at.dir)
	if at.dir != d.base {
		if err == nil {
			d.log.Warn("the state directory is this server's own, as it was before: another server had the usual one then",
				"directory", at.dir, "usual", d.base)
		}
		return at, l, err
	}
	used, ok := errors.AsType[*inUseError](err)
	if d.ownName == "" || !ok || used.holder.Ending || slices.Contains(used.holder.Names, d.ownName) {
		return at, l, err
	}
	at = d.own()
	if l, err = d.waitForLock(at.dir); err == nil {
		d.log.Warn("another server uses the usual state directory, so this one has its own from now on; its sessions and desktops are not the other's",
			"directory", at.dir, "usual", d.base, "process", used.holder.PID)
	}
	return at, l, err
}
