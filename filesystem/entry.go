package filesystem

import (
	"fmt"
	"io/fs"
	"path"
	"syscall"
	"time"
)

// Type is the type of an entry. Everything except a directory is a file.
type Type string

// The types of entries.
const (
	TypeFile      Type = "file"
	TypeDirectory Type = "directory"
)

// Entry describes a file or directory.
type Entry struct {
	Name     string // the last element of Path; can have any byte except "/" and NUL
	Path     string // absolute
	Type     Type
	Size     int64 // in bytes; for a directory, what the file system reports
	Modified time.Time
	Mode     fs.FileMode // has the kind: link, FIFO, socket, device, ...
	Link     bool        // Path itself is a symbolic link
	Target   string      // of a link
	UID, GID uint32

	device, inode uint64
	changed       time.Time
}

// ETag returns an entity tag as in HTTP, quoted. It changes with the content, the size and the
// attributes, and when the path gets another file.
func (e Entry) ETag() string {
	return fmt.Sprintf(`"%x-%x-%x-%x-%x"`, e.device, e.inode, e.Size, e.Modified.UnixNano(), e.changed.UnixNano())
}

func newEntry(name string, n node) Entry {
	e := Entry{
		Name: path.Base(name), Path: name, Type: TypeFile, Size: n.size, Modified: n.modified, Mode: n.mode,
		UID: n.uid, GID: n.gid, device: n.device, inode: n.inode, changed: n.changed,
	}
	if n.isDir() {
		e.Type = TypeDirectory
	}
	return e
}

// nodeOfInfo converts the result of package os.
func nodeOfInfo(info fs.FileInfo) node {
	n := node{mode: info.Mode(), size: info.Size(), modified: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		n.raw = st.Mode
		n.changed, n.accessed = time.Unix(st.Ctim.Unix()), time.Unix(st.Atim.Unix())
		//nolint:unconvert // the types differ between architectures
		n.device, n.inode, n.links, n.number = uint64(st.Dev), st.Ino, uint64(st.Nlink), uint64(st.Rdev)
		n.uid, n.gid = st.Uid, st.Gid
	}
	return n
}

// Stat describes the file that a path leads to. It follows symbolic links; Link and Target
// describe a link in the last element of the path. The error is fs.ErrNotExist if the path or
// the target of a link does not exist, and ErrOutside if a link leads out of the roots.
func (f *FS) Stat(name string) (Entry, error) { return f.describe("stat", name, true) }

// Lstat describes a file or symbolic link, also a dangling one. The error is
// fs.ErrNotExist if the path does not exist.
func (f *FS) Lstat(name string) (Entry, error) { return f.describe("lstat", name, false) }

func (f *FS) describe(op, name string, follow bool) (e Entry, err error) {
	err = f.call(op, name, f.locateEntry, func(p place) error {
		info, err := p.tree.Lstat(p.name)
		if err != nil {
			return err
		}
		e = newEntry(p.path, nodeOfInfo(info))
		if info.Mode()&fs.ModeSymlink == 0 {
			return nil
		}
		target, err := p.tree.Readlink(p.name)
		if err != nil {
			return linkError(err)
		}
		if follow {
			if info, err = p.tree.Stat(p.name); err != nil {
				return err
			}
			e = newEntry(p.path, nodeOfInfo(info))
		}
		e.Link, e.Target = true, target
		return nil
	})
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}
