package filesystem

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/removetree"
)

// Mkdir makes a directory and the missing directories above it, with the mode 0777 less the
// umask. It returns nil if the directory exists, and ErrNotDirectory if a file is in its
// place or above it.
func (f *FS) Mkdir(name string) error {
	return f.call("mkdir", name, f.locateEntry, func(p place) error {
		err := p.tree.MkdirAll(p.name, 0o777)
		if errors.Is(err, fs.ErrExist) {
			if info, failed := p.tree.Stat(p.name); failed == nil && !info.IsDir() {
				err = unix.ENOTDIR
			}
		}
		return err
	})
}

// Remove removes a file, a symbolic link (without following it) or a directory. A directory
// that is not empty is removed only if recursive is set; otherwise the error is ErrNotEmpty.
// The error is fs.ErrNotExist if the path does not exist, even if recursive is set. It is
// ErrRoot for a root, "/", and a directory that contains a root. It is ErrBusy for a mount
// point, and the mounted files stay.
//
// Entries that were removed before an error stay removed.
func (f *FS) Remove(ctx context.Context, name string, recursive bool) error {
	return f.call("remove", name, f.locateEntry, func(p place) error {
		dir, base, err := openParent(p)
		if err != nil {
			return err
		}
		defer dir.close()
		n, err := dir.stat(base)
		if err == nil {
			err = f.mayMove(p, n)
		}
		switch {
		case err != nil:
			return err
		case !n.isDir():
			return dir.unlink(base)
		case recursive:
			return removeEntry(dir, base, f.alive(ctx))
		}
		if err = dir.rmdir(base); err == unix.ENOTEMPTY {
			err = &Error{
				Reason: "directory not empty", Remedy: "recursive removes what is in it as well",
				Kind: ErrNotEmpty, Err: err,
			}
		}
		return err
	})
}

// mayMove returns an error for a root, under any name, and for a directory with a root in it.
func (f *FS) mayMove(p place, n node) error {
	for _, r := range f.roots {
		_, holds := below(p.path, r.path)
		_, holdsReal := below(p.path, r.real)
		if holds || holdsReal || n.is(r.node) {
			return &Error{Path: p.path, Reason: "path is a root or holds one", Kind: ErrRoot}
		}
	}
	return nil
}

// removeEntry removes an entry of a folder with everything below it.
func removeEntry(dir folder, name string, alive aliveFunc) error {
	err := removetree.RemoveIn(dir.file, name, alive)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return withPath(dir.child(failed.Path), failed.Err)
	}
	return err
}
