package folder

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// lockTime bounds the wait for other programs. A change takes as long as the disk
	// needs, so only a stopped or hostile program holds the lock longer.
	lockTime = 10 * time.Second
	// lockPoll is the time between two attempts. A thread that waits in the kernel for the
	// lock cannot be interrupted.
	lockPoll = time.Millisecond

	newMode    = 0o600 // of a file that did not exist
	tempSuffix = ".tmp"

	// maxSwept bounds the names of a directory that a change inspects. Programs choose how
	// many there are.
	maxSwept = 4096
)

func update(ctx context.Context, dir, name string, limit int64, edit func(old []byte) ([]byte, error)) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	d, base, unlock, err := lock(ctx, dir, name)
	if err != nil {
		return err
	}
	defer unlock()
	at := filepath.Join(dir, name)
	old, info, err := readFile(d, base, limit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return withPath(at, err)
	}
	text, err := edit(old)
	if err != nil || text == nil {
		return err
	}
	return withPath(at, replace(d, base, text, info))
}

// lock opens the directory of a file and waits until no other program changes
// files in it. It locks the directory and not the file, because each change replaces
// the file; a lock file would stay behind, often in a repository.
func lock(ctx context.Context, dir, name string) (d *os.Root, base string, unlock func(), err error) {
	for {
		d, base, err := openParent(dir, name, true)
		if err != nil {
			return nil, "", nil, err
		}
		self, err := d.Open(".")
		if err != nil {
			return nil, "", nil, errors.Join(err, d.Close())
		}
		unlock := func() { _, _ = self.Close(), d.Close() } // closing self releases the lock
		err = flock(ctx, self, filepath.Dir(filepath.Join(dir, name)))
		if err == nil && current(d, dir, name) {
			return d, base, unlock, nil
		}
		unlock() // the directory may have been exchanged during the wait
		if err != nil {
			return nil, "", nil, err
		}
	}
}

// current reports whether a name still leads to a directory that was opened.
func current(d *os.Root, dir, name string) bool {
	now, _, err := openParent(dir, name, true)
	if err != nil {
		return false // the next attempt returns the error
	}
	defer now.Close()
	a, errA := d.Stat(".")
	b, errB := now.Stat(".")
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// flock locks an open directory against every other open of it (flock(2)).
func flock(ctx context.Context, d *os.File, at string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTime, fmt.Errorf("%s: %w", at, ErrLocked))
	defer cancel()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil, unsupported(err):
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return &os.PathError{Op: "flock", Path: at, Err: err}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unsupported reports whether a file system has no such locks. NFS returns EBADF for
// a file that is not open for writing, and a directory cannot be.
func unsupported(err error) bool {
	for _, known := range []error{syscall.EBADF, syscall.ENOLCK, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EINVAL} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// replace replaces a file, or returns an error and leaves it unchanged. info
// describes the old file, or is nil. The directory must be locked.
func replace(d *os.Root, name string, text []byte, info fs.FileInfo) (err error) {
	sweep(d, "."+name+".")
	temp := "." + name + "." + rand.Text() + tempSuffix
	f, err := d.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newMode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Remove(temp))
		}
	}()
	if err := errors.Join(fill(f, text, info), f.Close()); err != nil {
		return err
	}
	if err := d.Rename(temp, name); err != nil {
		return err
	}
	// An error is ignored: the change is already visible to all readers.
	if self, err := d.Open("."); err == nil {
		_, _ = self.Sync(), self.Close()
	}
	return nil
}

// fill writes the new file and forces it to disk: a rename may reach the disk
// before the data does.
func fill(f *os.File, text []byte, info fs.FileInfo) error {
	mode := fs.FileMode(newMode)
	if info != nil {
		mode = info.Mode().Perm()
		if old, ok := info.Sys().(*syscall.Stat_t); ok && (int(old.Uid) != os.Geteuid() || int(old.Gid) != os.Getegid()) {
			_ = f.Chown(int(old.Uid), int(old.Gid)) // only root may change the owner
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Sync()
}

// sweep removes temporary files of programs that were killed during a change, as far as they
// are among the first names of the directory. While the directory is locked, no program is
// changing the file.
func sweep(d *os.Root, prefix string) {
	self, err := d.Open(".")
	if err != nil {
		return // the change fails with this error
	}
	defer self.Close()
	for seen := 0; seen < maxSwept && err == nil; {
		var names []string
		names, err = self.Readdirnames(256)
		for _, name := range names {
			if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, tempSuffix) {
				_ = d.Remove(name)
			}
		}
		seen += len(names)
	}
}
