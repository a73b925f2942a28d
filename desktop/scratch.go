package desktop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/removetree"
	"github.com/deskhand/deskhand/internal/userhome"
)

// The temporary directories of desktops are in one folder for each user, so that the next
// program can find and remove what killed programs left. Each has a lock file that its
// owner locks.
const (
	privateMode = 0o700 // of directories for this user
	openMode    = 0o711 // of directories that another user enters

	scratchPrefix = "d-"
	lockName      = "lock"

	sweepLimit  = 5 * time.Second  // of the removal of what others left; starts wait for it
	removeLimit = 30 * time.Second // of the removal of a desktop's own
)

// errInUse is returned if another desktop, of any program, has locked a directory.
var errInUse = errors.New("is in use by another desktop")

// scratchBase returns the folder of this user's temporary directories of a mode; see
// [userhome.Own].
func scratchBase(mode fs.FileMode) (string, error) {
	base := userhome.TemporaryPath()
	if mode == openMode {
		base += "-open"
	}
	return base, userhome.Own(base, mode)
}

// newScratch makes a temporary directory of a mode.
func newScratch(mode fs.FileMode) (dir string, lock *os.File, err error) {
	base, err := scratchBase(mode)
	if err != nil {
		return "", nil, err
	}
	baseLock, err := lockBase(base)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = release(baseLock) }()
	if dir, err = os.MkdirTemp(base, scratchPrefix); err != nil {
		return "", nil, fmt.Errorf("temporary directory: %w", err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		return "", nil, fmt.Errorf("temporary directory: %w", err)
	}
	lock, err = acquire(filepath.Join(dir, lockName), unix.LOCK_EX|unix.LOCK_NB)
	return dir, lock, err
}

// lockBase locks a folder of temporary directories. Only the holder makes or removes one of them, or
// locks one that it has not made. It holds the lock for a moment: all starts wait for it.
func lockBase(base string) (*os.File, error) {
	return acquire(filepath.Join(base, lockName), unix.LOCK_EX)
}

// sweepScratch removes the temporary directories in a folder whose owners have ended. Directories that
// are left at the deadline are for a later call.
func sweepScratch(base string, deadline time.Time) error {
	abandoned, err := lockAbandoned(base)
	errs := []error{err}
	for _, lock := range abandoned {
		dir := filepath.Dir(lock.Name())
		if unmounted(dir) == nil { // no remote files of programs that still run
			errs = append(errs, removeScratch(dir, deadline))
		}
		errs = append(errs, release(lock))
	}
	return errors.Join(errs...)
}

// lockAbandoned locks the temporary directories in a folder whose owners have ended.
func lockAbandoned(base string) (locks []*os.File, err error) {
	baseLock, err := lockBase(base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = release(baseLock) }()
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		if lock, err := acquire(filepath.Join(base, e.Name(), lockName), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			locks = append(locks, lock)
		}
	}
	return locks, nil
}

// removeScratch removes the temporary directory of a desktop, whose lock the caller has.
// It removes the lock file last, and holds the lock of the folder then, because another
// program would otherwise make the lock file again.
func removeScratch(dir string, deadline time.Time) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if e.Name() != lockName {
			errs = append(errs, removetree.Remove(filepath.Join(dir, e.Name()), deadline))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	baseLock, err := lockBase(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer func() { _ = release(baseLock) }()
	_ = os.Remove(filepath.Join(dir, lockName)) // a cleaner of old files may have removed it
	return os.Remove(dir)
}

// release unlocks and closes a file. Closing is not enough: a child process between fork
// and exec has it open, too.
func release(lock *os.File) error {
	return errors.Join(unix.Flock(int(lock.Fd()), unix.LOCK_UN), lock.Close())
}

// acquire creates and locks a file, until release or the end of this program (flock(2)).
func acquire(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := lockFile(f, how); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	return f, nil
}

// lockFile locks an open file. If it fails, it closes the file.
func lockFile(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch err {
		case nil:
			return nil
		case unix.EINTR:
			continue
		case unix.EWOULDBLOCK:
			err = errInUse
		default:
			err = &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
		_ = f.Close()
		return err
	}
}
