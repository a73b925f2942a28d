// Package removetree removes directory trees whose content is not trusted.
//
// # Usage
//
//	err := removetree.Remove("/tmp/deskhand-1000/desktop-1", time.Now().Add(time.Minute))
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
// Programs of the owner could add entries for ever. So if this program is root, Remove first gives
// each directory of another user to root, with a mode and group that keep the owner for a later call.
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
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxOpen bounds how many levels of a tree are open.
	maxOpen = 32
	// maxErrors bounds the errors that Remove returns.
	maxErrors = 10
	// takenMode is the mode of directories that root has taken from the user whose number is that of
	// their group. Other programs make no such directories.
	takenMode = unix.S_ISVTX | 0o700
)

// Remove removes a file, or a directory with all its content. It returns nil if the
// path does not exist, fs.ErrPermission at a directory that the owner of a directory
// above could not empty, and os.ErrDeadlineExceeded if entries are left at the deadline.
// It removes everything else and returns the first errors, joined.
func Remove(path string, deadline time.Time) error {
	parent, name := filepath.Dir(path), filepath.Base(path)
	dir, err := os.OpenFile(parent, unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	top := folder{dir, parent}
	check := func() error {
		if time.Now().Before(deadline) {
			return nil
		}
		return top.fail(name, os.ErrDeadlineExceeded)
	}
	r := &remover{check: check, owned: true, owner: os.Geteuid(), left: new([]error)}
	if err := r.remove(top, name, 0); err != errLeft {
		return err
	}
	return errors.Join(*r.left...)
}

// RemoveIn removes an entry of an open directory like [Remove], but the owners of
// directories do not matter, and it ends at the first error. It calls check before each entry
// below and returns its error. Paths of other errors begin with name.
func RemoveIn(dir *os.File, name string, check func() error) error {
	r := &remover{check: check, left: new([]error)}
	return r.remove(folder{file: dir}, name, 0)
}

// folder is an open directory of the tree, or the directory that the tree is in.
type folder struct {
	file *os.File
	path string // for errors
}

func (d folder) fd() int { return int(d.file.Fd()) }

// fail returns an error about an entry.
func (d folder) fail(name string, err error) error {
	return &fs.PathError{Op: "remove", Path: filepath.Join(d.path, name), Err: err}
}

type remover struct {
	check func() error
	top   folder
	moved int  // how many directories were moved to the top
	owned bool // only directories of owner are emptied, and entries with errors are left
	owner int
	left  *[]error // the errors of entries that are left, at most maxErrors
}

// errLeft is the error of a directory if errors of entries were kept in left.
var errLeft = errors.New("entries are left")

// keep keeps an error of an entry. It reports whether the other entries are to be removed.
func (r *remover) keep(err error) bool {
	if !r.owned || errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if err != errLeft && len(*r.left) < maxErrors {
		*r.left = append(*r.left, err)
	}
	return true
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
	owner, self := int(st.Uid), os.Geteuid()
	if owner == 0 && st.Mode&0o7777 == takenMode {
		owner = int(st.Gid)
	}
	if owner != r.owner && r.owner != self {
		return nil, unix.EPERM
	}
	// Without the right to take it, only the deadline bounds what the owner adds.
	if self == 0 && st.Uid != 0 {
		mark := func() error { return unix.Fchmod(dir.fd(), takenMode) } // before, too: this program may be killed
		if mark() == nil && unix.Fchown(dir.fd(), 0, owner) == nil {
			if err := mark(); err != nil { // the owner may have changed it
				return nil, err
			}
		}
	}
	if owner == r.owner {
		return r, nil
	}
	return &remover{check: r.check, owned: true, owner: owner, left: r.left}, nil
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
			r.moved++
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
		kept, moved := len(*r.left), r.moved
		removed, err := r.removeEntries(sub, depth)
		if err != nil && err != errLeft {
			return err
		}
		if err == nil {
			switch failed := unix.Unlinkat(dir.fd(), name, unix.AT_REMOVEDIR); failed {
			case nil, unix.ENOENT:
				return nil
			case unix.ENOTEMPTY:
				err = dir.fail(name, failed)
			default:
				return dir.fail(name, failed)
			}
		}
		// A pass may miss entries that are new, or that moved because others were removed.
		if removed == 0 && r.moved == moved {
			return err
		}
		*r.left = (*r.left)[:kept]
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
	var left error
	for {
		names, err := dir.file.Readdirnames(1024)
		for _, name := range names {
			if err := r.check(); err != nil {
				return removed, err
			}
			switch err := r.remove(dir, name, depth+1); {
			case err == nil:
				removed++
			case r.keep(err):
				left = errLeft
			default:
				return removed, err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, unix.ENOENT): // another process removed the directory
			return removed, left
		case err != nil:
			return removed, err
		}
	}
}
