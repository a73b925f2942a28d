package eventlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile locks a file for this server, and returns its path without links. It locks
// another file beside it, because closing a descriptor of the file itself would release
// SQLite's own locks.
func lockFile(file string) (path string, lock *os.File, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", nil, err
	}
	if path, err = realPath(file); err != nil {
		return "", nil, err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", nil, &InvalidError{"dsn", fmt.Sprintf("names %s, which is not a regular file", path)}
	}
	lock, err = os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return "", nil, fmt.Errorf("%w: %s%s; stop that one or name another file", ErrInUse, path, holder(lock))
		}
		return "", nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := checkMissing(path); err != nil {
		return "", nil, errors.Join(err, unlockFile(lock))
	}
	// The error of other servers names this process.
	if err := lock.Truncate(0); err == nil {
		_, _ = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	// The log has prompts and file contents: only this user may read it.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		lock.Close()
		return "", nil, err
	}
	f.Close()
	return path, lock, nil
}

// unlockFile unlocks a file. To close it is not enough, because a child process has it open
// until its exec.
func unlockFile(lock *os.File) error {
	return errors.Join(unix.Flock(int(lock.Fd()), unix.LOCK_UN), lock.Close())
}

// holder returns the text of an error about the process that has the lock, or "".
func holder(lock *os.File) string {
	text, err := io.ReadAll(io.LimitReader(lock, 32))
	pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil {
		return ""
	}
	return fmt.Sprintf(" is open in process %d", pid)
}

// realPath returns the absolute path without links of a file, which need not exist.
func realPath(file string) (string, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(file)
	if errors.Is(err, os.ErrNotExist) {
		folder, err := filepath.EvalSymlinks(filepath.Dir(file))
		return filepath.Join(folder, filepath.Base(file)), err
	}
	return path, err
}

// isFull reports whether a disk has less than 1 MiB left.
func isFull(folder string) bool {
	var s unix.Statfs_t
	return folder != "" && unix.Statfs(folder, &s) == nil && s.Bavail*uint64(s.Bsize) < 1<<20
}
