package recording

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile is held as long as a store is open.
const lockFile = ".lock"

// lockDir keeps other stores out of a directory until unlockDir, or until this
// program dies.
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

// unlockDir lets other stores into a directory. The end of the file alone would
// not, while a program that is just being started has a copy of it.
func unlockDir(lock *os.File) error {
	err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN) //nolint:gosec // file descriptors are small
	return errors.Join(err, lock.Close())
}

// ready sees to it that a recording can be made: that the directory is there, and
// locked, also after somebody removed it, and that there is room.
func (s *Store) ready() error {
	s.mu.Lock()
	err := s.relock()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.checkRoom()
}

// relock makes and locks the directory anew if it is not there any more. The
// caller holds mu.
func (s *Store) relock() error {
	switch removed, err := unlinked(s.lock); {
	case s.closed:
		return ErrClosed
	case err != nil || !removed:
		return err
	}
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	s.lock, lock = lock, s.lock
	return unlockDir(lock)
}

// unlinked says whether somebody removed an open file.
func unlinked(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0, nil
}

// freeBytes says how many bytes a disk has left for this user.
func freeBytes(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:gosec,unconvert // no disk is that large; an int32 on arm
}

// room says how many bytes may still be written.
func (s *Store) room() (int64, error) {
	free, err := s.free(s.cfg.Dir)
	return free - s.cfg.MinFree, err
}

// checkRoom returns ErrNoSpace when the disk is nearly full.
func (s *Store) checkRoom() error {
	switch left, err := s.room(); {
	case err != nil:
		return err
	case left <= 0:
		return fmt.Errorf("%w: %d MiB must stay free in %s", ErrNoSpace, s.cfg.MinFree>>20, s.cfg.Dir)
	}
	return nil
}
