package filesystem

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
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
		err = removeTree(dir, base, f.alive(ctx))
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

// removeTree removes an entry of a folder with all that is below it. It holds
// one directory open for each level.
func removeTree(dir folder, name string, alive aliveFunc) error {
	switch err := dir.rmdir(name); err {
	case nil, unix.ENOENT:
		return nil
	case unix.ENOTEMPTY, unix.EEXIST:
	default: // it would stay, so what is in it does: a mount point's disk, for one
		return at(dir.child(name), err)
	}
	sub, err := dir.folder(name, folderRead)
	if err != nil {
		return at(dir.child(name), err)
	}
	defer sub.close()
	for {
		removed, err := empty(sub, alive)
		if err != nil {
			return err
		}
		err = dir.rmdir(name)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		// A pass may miss entries because it removed others, or because they
		// are new.
		if err != unix.ENOTEMPTY || removed == 0 {
			return at(dir.child(name), err)
		}
	}
}

// empty goes through a folder once and removes what it finds.
func empty(dir folder, alive aliveFunc) (removed int, err error) {
	if _, err := dir.file.Seek(0, io.SeekStart); err != nil {
		return 0, at(dir.path, err)
	}
	for {
		names, err := dir.file.Readdirnames(1024)
		for _, name := range names {
			if err := alive(); err != nil {
				return removed, err
			}
			if err := removeEntry(dir, name, alive); err != nil {
				return removed, err
			}
			removed++
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, unix.ENOENT): // others removed it
			return removed, nil
		case err != nil:
			return removed, at(dir.path, err)
		}
	}
}

// removeEntry removes what is called name, whatever it is.
func removeEntry(dir folder, name string, alive aliveFunc) error {
	err := dir.unlink(name)
	switch err {
	case nil, unix.ENOENT:
		return nil
	case unix.EISDIR:
		return removeTree(dir, name, alive)
	case unix.EPERM: // what POSIX says of a directory, and Linux of much else
		if n, failed := dir.stat(name); failed == nil && n.isDir() {
			return removeTree(dir, name, alive)
		}
	}
	return at(dir.child(name), err)
}
