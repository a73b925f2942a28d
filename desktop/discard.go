package desktop

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/removetree"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Discard calls [Sweep] and removes the files of a state directory, except the entries
// that keep names, and then the directory if it is empty. It returns nil if the directory
// does not exist.
//
// It removes nothing and returns an error if a desktop uses the directory, if it is a
// symbolic link, or if something is mounted below it. It removes links in the directory
// without following them. The caller must not start a desktop there meanwhile. logger may
// be nil.
func Discard(stateDir string, logger *slog.Logger, keep ...string) error {
	err := discard(stateDir, logger, keep)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("discard state directory: %w", err)
	}
	return nil
}

func discard(stateDir string, logger *slog.Logger, keep []string) (err error) {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return err
	}
	root, err := openReal(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile(stateLock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := lockFile(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, release(f)) }()
	if _, err := Sweep(dir, logger); err != nil {
		return err
	}
	if err := unmounted(dir); err != nil {
		return err
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	opened, err := root.Open(".")
	if err != nil {
		return err
	}
	defer opened.Close()
	var errs []error
	for _, e := range entries {
		if e.Name() != stateLock && !slices.Contains(keep, e.Name()) {
			errs = append(errs, removetree.RemoveIn(opened, e.Name(), func() error { return nil }))
		}
	}
	// The lock goes last.
	if err := errors.Join(append(errs, root.Remove(stateLock))...); err != nil {
		return err
	}
	if err := unix.Rmdir(dir); err != nil && err != unix.ENOTEMPTY && err != unix.EEXIST {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// openReal opens a directory. It refuses a symbolic link.
func openReal(dir string) (*os.Root, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(fmt.Errorf("%s was replaced meanwhile", dir), err, root.Close())
	}
	return root, nil
}

// unmounted returns an error if something is mounted on a directory or below it, such as
// remote files of a user.
func unmounted(dir string) error {
	real, err := filepath.EvalSymlinks(dir) // as the kernel has it
	if err != nil {
		return err
	}
	mounts, err := supervise.Mounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.Point == real || strings.HasPrefix(m.Point, real+"/") {
			return fmt.Errorf("something is mounted at %s", m.Point)
		}
	}
	return nil
}
