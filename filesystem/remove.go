package filesystem

import (
	"context"
	"crypto/rand"
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

// maxOpen is how many levels of a tree removeTree holds open.
const maxOpen = 32

// removeTree removes an entry of a folder with all that is below it. It moves
// folders below maxOpen levels to the top of the tree before it removes them,
// because each level holds a descriptor.
func removeTree(dir folder, name string, alive aliveFunc) error {
	r := &treeRemover{alive: alive}
	return r.remove(dir, name, 0)
}

type treeRemover struct {
	alive aliveFunc
	top   folder
}

// remove removes a folder that is depth levels below the top of the tree.
func (r *treeRemover) remove(dir folder, name string, depth int) error {
	switch err := dir.rmdir(name); err {
	case nil, unix.ENOENT:
		return nil
	case unix.ENOTEMPTY, unix.EEXIST:
	default: // it would stay, so what is in it does: a mount point's disk, for one
		return at(dir.child(name), err)
	}
	if depth >= maxOpen {
		err := dir.rename(name, r.top, ".deskhand-"+rand.Text()+".tmp", 0)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		return at(dir.child(name), err)
	}
	sub, err := dir.folder(name, folderRead)
	if err != nil {
		return at(dir.child(name), err)
	}
	defer sub.close()
	if depth == 0 {
		r.top = sub
	}
	for {
		removed, err := r.empty(sub, depth)
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
func (r *treeRemover) empty(dir folder, depth int) (removed int, err error) {
	if _, err := dir.file.Seek(0, io.SeekStart); err != nil {
		return 0, at(dir.path, err)
	}
	for {
		names, err := dir.file.Readdirnames(1024)
		for _, name := range names {
			if err := r.alive(); err != nil {
				return removed, err
			}
			if err := r.entry(dir, name, depth+1); err != nil {
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

// removeEntry removes an entry of a folder, of any kind, with all that is below it.
func removeEntry(dir folder, name string, alive aliveFunc) error {
	r := &treeRemover{alive: alive}
	return r.entry(dir, name, 0)
}

// entry removes an entry of any kind that is depth levels below the top.
func (r *treeRemover) entry(dir folder, name string, depth int) error {
	err := dir.unlink(name)
	switch err {
	case nil, unix.ENOENT:
		return nil
	case unix.EISDIR:
		return r.remove(dir, name, depth)
	case unix.EPERM: // what POSIX says of a directory, and Linux of much else
		if n, failed := dir.stat(name); failed == nil && n.isDir() {
			return r.remove(dir, name, depth)
		}
	}
	return at(dir.child(name), err)
}
