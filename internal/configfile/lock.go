package configfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// lockTime is how long a change waits for those of other programs, once it
	// is its turn in this one. Each takes as long as the disk needs, so only a
	// program that was stopped in the middle of one lets it pass.
	lockTime = 10 * time.Second
	// lockPoll is how often it looks. The kernel could wake us, but a thread
	// that waits for a lock cannot be told to give up.
	lockPoll = time.Millisecond
)

// lock waits until nobody else changes a file. It returns the file at the end
// of the symbolic links, and what gives the lock back.
//
// The directory is what is locked: the file is replaced by each change, and a
// lock file would be left behind in what often is somebody's repository.
func lock(ctx context.Context, file string) (target string, unlock func(), err error) {
	for {
		if target, err = follow(file); err != nil {
			return "", nil, err
		}
		d, err := os.Open(filepath.Dir(target))
		if err != nil {
			return "", nil, err
		}
		if err := flock(ctx, d); err != nil {
			return "", nil, errors.Join(err, d.Close())
		}
		// While we waited the links may have been changed to another place.
		now, err := follow(file)
		if err == nil && now == target {
			return target, func() { _ = d.Close() }, nil // which gives the lock back
		}
		if err := errors.Join(err, d.Close()); err != nil {
			return "", nil, err
		}
	}
}

// flock locks an open directory against everybody else who opened it (flock(2)).
func flock(ctx context.Context, d *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTime, fmt.Errorf("%s: %w", d.Name(), ErrLocked))
	defer cancel()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil, unsupported(err):
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return &os.PathError{Op: "flock", Path: d.Name(), Err: err}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unsupported says whether a file system has no such locks: EBADF is NFS's
// answer for what is not open for writing, which a directory cannot be.
func unsupported(err error) bool {
	for _, known := range []error{syscall.EBADF, syscall.ENOLCK, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EINVAL} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// mostLinks is how many symbolic links in a row the kernel follows.
const mostLinks = 40

// follow finds the file that a path names when it is a symbolic link, whether
// that file exists or not. There are no links left in the path it returns.
func follow(path string) (string, error) {
	for range mostLinks {
		// Not filepath.Dir, which would take the directory off at a "..",
		// though that directory may be a link itself.
		slash := strings.LastIndexByte(path, filepath.Separator)
		dir, err := filepath.EvalSymlinks(path[:slash+1])
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, path[slash+1:])
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return path, nil
		case err != nil:
			return "", err
		case info.Mode()&os.ModeSymlink == 0:
			return path, nil
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = dir + string(filepath.Separator) + to
		}
		path = to
	}
	return "", &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}
