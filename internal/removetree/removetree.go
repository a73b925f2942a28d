// Package removetree removes directory trees whose content is not trusted.
//
// # Usage
//
//	err := removetree.Remove("/tmp/deskhand-1000/desktop-1")
//
// # Trees
//
// No symbolic link is followed, even if another process exchanges directories
// meanwhile. A mount point is an error, and the mounted files stay. A bounded number
// of directories is open at any time, however deep the tree is: deeper directories
// are moved to the top of the tree before they are removed.
//
// [Remove] removes no more than the owner of a directory could. The owner can move a directory
// with files of other users into it, but cannot remove these files. So below a directory of
// another user than this program's, the directories of further users are not emptied.
//
// # Concurrency
//
// All functions may be called from any goroutine.
//
// # Errors
//
// Errors of the operating system are [*fs.PathError]. Entries that were removed before an
// error stay removed.
//
// # Requirements
//
// Linux.
package removetree

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxOpen bounds how many levels of a tree are open.
const maxOpen = 32

// Remove removes a file, or a directory with all its content. It returns nil if the
// path does not exist, and fs.ErrPermission at a directory that the owner of a directory
// above could not empty.
func Remove(path string) error {
	parent, name := filepath.Dir(path), filepath.Base(path)
	dir, err := os.OpenFile(parent, unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	r := &remover{check: func() error { return nil }, owned: true, owner: os.Geteuid()}
	err = r.remove(folder{file: dir}, name, 0)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		failed.Path = filepath.Join(parent, failed.Path)
	}
	return err
}

// RemoveIn removes an entry of an open directory like [Remove], but the owners of
// directories do not matter. It calls check before each entry below and returns its
// error. Paths of other errors begin with name.
func RemoveIn(dir *os.File, name string, check func() error) error {
	r := &remover{check: check}
	return r.remove(folder{file: dir}, name, 0)
}

// folder is an open directory of the tree, or the directory that the tree is in.
type folder struct {
	file *os.File
	path string // relative to the directory that the tree is in
}

func (d folder) fd() int { return int(d.file.Fd()) }

// fail returns an error about an entry.
func (d folder) fail(name string, err error) error {
	return &fs.PathError{Op: "remove", Path: filepath.Join(d.path, name), Err: err}
}

type remover struct {
	check func() error
	top   folder
	owned bool // only directories of owner are emptied
	owner int
}

// below returns the remover for the content of a directory. At the first directory of another
// user it is a new one, so that deeper directories are moved to a directory of that user.
func (r *remover) below(dir folder) (*remover, error) {
	if !r.owned {
		return r, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(dir.fd(), &st); err != nil {
		return nil, err
	}
	switch owner := int(st.Uid); {
	case owner == r.owner:
		return r, nil
	case r.owner == os.Geteuid():
		return &remover{check: r.check, owned: true, owner: owner}, nil
	}
	return nil, unix.EPERM
}

// remove removes an entry that is depth levels below the top of the tree.
func (r *remover) remove(dir folder, name string, depth int) error {
	err := unix.Unlinkat(dir.fd(), name, 0)
	switch err {
	case nil, unix.ENOENT:
		return nil
	case unix.EISDIR, unix.EPERM: // POSIX has EPERM for a directory; on Linux it has other causes, too
		if err == unix.EISDIR || dir.isDir(name) {
			return r.removeDir(dir, name, depth)
		}
	}
	return dir.fail(name, err)
}

func (d folder) isDir(name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// removeDir removes a directory that is depth levels below the top of the tree.
func (r *remover) removeDir(dir folder, name string, depth int) error {
	switch err := unix.Unlinkat(dir.fd(), name, unix.AT_REMOVEDIR); err {
	case nil, unix.ENOENT:
		return nil
	case unix.ENOTEMPTY, unix.EEXIST:
	default: // a directory that cannot be removed, such as a mount point, keeps its content
		return dir.fail(name, err)
	}
	if depth >= maxOpen {
		err := unix.Renameat(dir.fd(), name, r.top.fd(), ".deskhand-"+rand.Text()+".tmp")
		if err == nil || err == unix.ENOENT {
			return nil
		}
		return dir.fail(name, err)
	}
	sub, err := dir.open(name)
	if err != nil {
		return dir.fail(name, err)
	}
	defer sub.file.Close()
	inner, err := r.below(sub)
	if err != nil {
		return dir.fail(name, err)
	}
	if inner != r {
		r, depth = inner, 0
	}
	if depth == 0 {
		r.top = sub
	}
	for {
		removed, err := r.removeEntries(sub, depth)
		if err != nil {
			return err
		}
		err = unix.Unlinkat(dir.fd(), name, unix.AT_REMOVEDIR)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		// A pass may miss entries that are new, or that moved because others were removed.
		if err != unix.ENOTEMPTY || removed == 0 {
			return dir.fail(name, err)
		}
	}
}

func (d folder) open(name string) (folder, error) {
	for {
		fd, err := unix.Openat(d.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			path := filepath.Join(d.path, name)
			return folder{os.NewFile(uintptr(fd), path), path}, nil
		}
		if err != unix.EINTR {
			return folder{}, err
		}
	}
}

// removeEntries removes the entries that one pass through a directory finds.
func (r *remover) removeEntries(dir folder, depth int) (removed int, err error) {
	if _, err := dir.file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	for {
		names, err := dir.file.Readdirnames(1024)
		for _, name := range names {
			if err := r.check(); err != nil {
				return removed, err
			}
			if err := r.remove(dir, name, depth+1); err != nil {
				return removed, err
			}
			removed++
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, unix.ENOENT): // another process removed the directory
			return removed, nil
		case err != nil:
			return removed, err
		}
	}
}
