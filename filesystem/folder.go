package filesystem

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// folder is an open directory. Its methods take a single name and never follow a symbolic
// link. They stay in this directory even if its path leads elsewhere meanwhile. It must be
// closed.
type folder struct {
	file *os.File
	fd   int
	path string // absolute, for messages
}

// How a folder is opened.
const (
	folderHold = unix.O_PATH | unix.O_DIRECTORY                     // to change entries; no read permission needed
	folderRead = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK // to list and sync it, too
)

// openFolder opens a directory. It follows links as the tree permits.
func openFolder(p place, flag int) (folder, error) {
	file, err := p.tree.OpenFile(p.name, flag, 0)
	if err != nil {
		return folder{}, withPath(p.path, err)
	}
	return newFolder(file, p.path), nil
}

// openParent opens the directory of a place, and returns the name in it.
func openParent(p place) (folder, string, error) {
	if p.name == "." {
		return folder{}, "", &Error{Path: p.path, Reason: "path is a root", Kind: ErrRoot}
	}
	dir, err := openFolder(p.parent(), folderHold)
	if e := (*Error)(nil); errors.As(err, &e) && !errors.Is(err, unix.ENOTDIR) {
		e.Path = p.path // the path of the caller; an error for a file in its place names that file
	}
	return dir, path.Base(p.name), err
}

// parent returns the directory of a place, without following links.
func (p place) parent() place {
	return place{tree: p.tree, name: p.dir(), path: path.Dir(p.path), followed: p.followed}
}

func newFolder(file *os.File, name string) folder {
	return folder{file: file, fd: int(file.Fd()), path: name}
}

func (d folder) close() { d.file.Close() }

func (d folder) child(name string) string { return path.Join(d.path, name) }

// open opens an entry, always with O_NOFOLLOW and O_CLOEXEC.
func (d folder) open(name string, flag int, perm uint32) (*os.File, error) {
	for {
		fd, err := unix.Openat(d.fd, name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), d.child(name)), nil
	}
}

func (d folder) folder(name string, flag int) (folder, error) {
	file, err := d.open(name, flag, 0)
	if err != nil {
		return folder{}, err
	}
	return newFolder(file, d.child(name)), nil
}

// ownFolder opens a directory that was just made and makes sure that only this user can change
// it, because the owner of d could have put another directory in its place.
func (d folder) ownFolder(name string) (folder, error) {
	own, err := d.folder(name, folderRead)
	if err != nil {
		return folder{}, err
	}
	if err := own.takeOwnership(); err != nil {
		own.close()
		return folder{}, err
	}
	return own, nil
}

// takeOwnership makes this user the owner of an empty directory. Root also takes a directory of
// a file system without owners and modes.
func (d folder) takeOwnership() error {
	n, err := d.self()
	if me := unix.Geteuid(); err == nil && int(n.uid) != me {
		if err = d.file.Chown(me, -1); me == 0 {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	_ = d.file.Chmod(0o700)
	switch _, err := d.file.Readdirnames(1); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return ErrChanged
}

func (d folder) stat(name string) (node, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return node{}, err
	}
	return nodeOf(&st), nil
}

func (d folder) self() (node, error) {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return node{}, err
	}
	return nodeOf(&st), nil
}

// isMountPoint reports whether an entry is a mount point. It needs Linux 5.8.
func (d folder) isMountPoint(name string) bool {
	var st unix.Statx_t
	err := unix.Statx(d.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

func (d folder) readlink(name string) (string, error) {
	b := make([]byte, maxPath)
	n, err := unix.Readlinkat(d.fd, name, b)
	if err != nil {
		return "", linkError(err)
	}
	return string(b[:n]), nil
}

// linkError returns the error for a link that could not be read. It is ErrBusy if another
// program has put something else in the link's place.
func linkError(err error) error {
	if errors.Is(err, unix.EINVAL) {
		return &Error{Reason: "replaced by another program meanwhile", Remedy: "try again", Kind: ErrBusy, Err: err}
	}
	return err
}

func (d folder) mkdir(name string, perm uint32) error { return unix.Mkdirat(d.fd, name, perm) }
func (d folder) unlink(name string) error             { return unix.Unlinkat(d.fd, name, 0) }
func (d folder) rmdir(name string) error              { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }

// rename moves an entry. Some kernels and file systems do not support the flags of
// renameat2(2): see unsupported.
func (d folder) rename(name string, to folder, newName string, flags uint) error {
	if flags == 0 {
		return unix.Renameat(d.fd, name, to.fd, newName)
	}
	return unix.Renameat2(d.fd, name, to.fd, newName, flags)
}

// unsupported reports whether a system call or one of its flags is not supported here.
func unsupported(err error) bool {
	return err == unix.ENOSYS || err == unix.EINVAL || err == unix.EOPNOTSUPP
}

// node is the data of a file in the file system.
type node struct {
	mode                 fs.FileMode
	raw                  uint32 // mode as in inode(7)
	size                 int64
	modified, changed    time.Time
	accessed             time.Time
	device, inode, links uint64
	number               uint64 // of a device file
	uid, gid             uint32
}

func nodeOf(st *unix.Stat_t) node {
	//nolint:unconvert // the types differ between architectures
	return node{
		mode: fileMode(st.Mode), raw: st.Mode, size: st.Size,
		modified: time.Unix(st.Mtim.Unix()), changed: time.Unix(st.Ctim.Unix()), accessed: time.Unix(st.Atim.Unix()),
		device: uint64(st.Dev), inode: st.Ino, links: uint64(st.Nlink), number: uint64(st.Rdev),
		uid: st.Uid, gid: st.Gid,
	}
}

func nodeOfFile(file *os.File) (node, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return node{}, err
	}
	return nodeOf(&st), nil
}

// fileID identifies a file, independent of its names.
type fileID struct{ device, inode uint64 }

func (n node) id() fileID { return fileID{n.device, n.inode} }

// is reports whether two nodes are the same file.
func (n node) is(other node) bool { return n.id() == other.id() }

func (n node) isDir() bool     { return n.mode.IsDir() }
func (n node) isRegular() bool { return n.mode.IsRegular() }
func (n node) isLink() bool    { return n.mode&fs.ModeSymlink != 0 }

// fileMode converts a mode of inode(7), which archives have, too.
func fileMode(m uint32) fs.FileMode {
	h := tar.Header{Mode: int64(m)}
	return h.FileInfo().Mode()
}
