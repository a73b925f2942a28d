package filesystem

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/removetree"
)

// Mkdir makes a directory and those above it that are missing. One that exists
// is no error.
func (f *FS) Mkdir(name string) error {
	const op = "mkdir"
	if err := f.enter(); err != nil {
		return f.fail(op, name, err)
	}
	defer f.leave()
	p, err := f.locateEntry(name)
	if err != nil {
		return f.fail(op, name, err)
	}
	err = p.tree.MkdirAll(p.name, 0o777)
	if errors.Is(err, fs.ErrExist) {
		if info, failed := p.tree.Stat(p.name); failed == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
	}
	return f.fail(op, p.path, err)
}

// Remove removes a file, a symbolic link (never what it leads to) or a
// directory. One that is not empty is removed only when recursive is set, else
// the error is ErrNotEmpty. Roots and "/" are refused with ErrRoot; a mount
// point with ErrBusy, and what is mounted there stays.
//
// What was removed before an error stays removed.
func (f *FS) Remove(ctx context.Context, name string, recursive bool) error {
	const op = "remove"
	if err := f.enter(); err != nil {
		return f.fail(op, name, err)
	}
	defer f.leave()
	p, err := f.locateEntry(name)
	if err != nil {
		return f.fail(op, name, err)
	}
	dir, base, err := openParent(p)
	if err != nil {
		return f.fail(op, p.path, err)
	}
	defer dir.close()
	n, err := dir.stat(base)
	if err == nil {
		err = f.mayMove(p, n)
	}
	switch {
	case err != nil:
	case !n.isDir():
		err = dir.unlink(base)
	case recursive:
		err = removeEntry(dir, base, f.alive(ctx))
	default:
		if err = dir.rmdir(base); err == unix.ENOTEMPTY {
			err = &Error{
				Problem: "directory not empty", Remedy: "recursive removes what is in it as well",
				Kind: ErrNotEmpty, Err: err,
			}
		}
	}
	return f.fail(op, p.path, err)
}

// mayMove refuses what must stay in its place: the top of a tree, under
// whatever name, and what holds one.
func (f *FS) mayMove(p place, n node) error {
	for _, r := range f.roots {
		_, holds := below(p.path, r.path)
		_, holdsReal := below(p.path, r.real)
		if holds || holdsReal || n.is(r.node) {
			return &Error{Path: p.path, Problem: "path is a root or holds one", Kind: ErrRoot}
		}
	}
	return nil
}

// removeEntry removes an entry of a folder, of any kind, with all that is below it.
func removeEntry(dir folder, name string, alive aliveFunc) error {
	err := removetree.RemoveIn(dir.file, name, alive)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return at(dir.child(failed.Path), failed.Err)
	}
	return err
}
