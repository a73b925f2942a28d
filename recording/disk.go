package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockFile is locked while a store is open.
const lockFile = ".lock"

// lockDir locks a directory against other stores, until unlockDir or the end of this
// program.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // file descriptors are small
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unlockDir unlocks a directory. Closing the file would not be enough while a child that is
// being started has a copy of it.
func unlockDir(lock *os.File) error {
	err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN) //nolint:gosec // file descriptors are small
	return errors.Join(err, lock.Close())
}

// ready returns an error if no recording can be made. It makes the directory again if it was
// removed.
func (x *index) ready() error {
	x.mu.Lock()
	err := x.relock()
	x.mu.Unlock()
	if err != nil {
		return err
	}
	return x.checkRoom(1)
}

// relock makes and locks the directory if it was removed. The caller holds mu.
func (x *index) relock() error {
	switch removed, err := unlinked(x.lock); {
	case x.closed:
		return ErrClosed
	case err != nil || !removed:
		return err
	}
	if err := os.MkdirAll(x.cfg.Dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(x.cfg.Dir)
	if err != nil {
		return err
	}
	x.lock, lock = lock, x.lock
	return unlockDir(lock)
}

// unlinked reports whether an open file was deleted.
func unlinked(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0, nil
}

// freeBytes returns the bytes of a disk that are free for this user.
func freeBytes(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:gosec,unconvert // no disk is that large; an int32 on arm
}

// room returns how many bytes may be written before MinFree is reached.
func (x *index) room() (int64, error) {
	free, err := x.free(x.cfg.Dir)
	return free - x.cfg.MinFree, err
}

// checkRoom returns ErrNoSpace if fewer bytes may be written.
func (x *index) checkRoom(size int64) error {
	switch left, err := x.room(); {
	case err != nil:
		return err
	case left < size:
		return fmt.Errorf("%w: %d MiB must stay free in %s", ErrNoSpace, x.cfg.MinFree>>20, x.cfg.Dir)
	}
	return nil
}

// endWithoutRoom cancels a context when no more may be written, until the context ends.
func (x *index) endWithoutRoom(ctx context.Context, cancel context.CancelCauseFunc) {
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	for {
		select {
		case <-check.C:
			if err := x.checkRoom(1); errors.Is(err, ErrNoSpace) {
				cancel(err)
			}
		case <-ctx.Done():
			return
		}
	}
}
