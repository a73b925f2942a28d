package filesystem

import (
	"fmt"
	"io/fs"
	"path"
	"syscall"
	"time"
)

// Type is what the API calls an entry; all that is no directory is a file.
type Type string

// The types of entries.
const (
	TypeFile      Type = "file"
	TypeDirectory Type = "directory"
)

// Entry describes a file or directory.
type Entry struct {
	Name     string // the last element of Path; may hold any byte but "/" and NUL
	Path     string // absolute
	Type     Type
	Size     int64 // bytes; what the system says of it for a directory
	Modified time.Time
	Mode     fs.FileMode // tells links, FIFOs, sockets and devices from files
	Link     bool        // Path itself is a symbolic link
	Target   string      // what the link says; empty for what is no link
	UID, GID uint32

	device, inode uint64
	changed       time.Time
}

// ETag names this state of the file: it changes when the content, the size, the
// name's file or its attributes do. It is a quoted string, as HTTP has it.
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

// nodeOfInfo is the node of what package os found.
func nodeOfInfo(info fs.FileInfo) node {
	n := node{mode: info.Mode(), size: info.Size(), modified: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		n.changed, n.accessed = time.Unix(st.Ctim.Unix()), time.Unix(st.Atim.Unix())
		//nolint:unconvert // the types differ between architectures
		n.device, n.inode, n.links, n.number = uint64(st.Dev), st.Ino, uint64(st.Nlink), uint64(st.Rdev)
		n.uid, n.gid = st.Uid, st.Gid
	}
	return n
}

// Stat describes what a path leads to, following symbolic links. Link and
// Target tell of a link in its last element.
func (f *FS) Stat(name string) (Entry, error) {
	return f.describe("stat", name, true)
}

// Lstat describes what a path names, which may be a symbolic link, also one
// that leads nowhere.
func (f *FS) Lstat(name string) (Entry, error) {
	return f.describe("lstat", name, false)
}

func (f *FS) describe(op, name string, follow bool) (Entry, error) {
	if err := f.enter(); err != nil {
		return Entry{}, f.fail(op, name, err)
	}
	defer f.leave()
	p, err := f.locateEntry(name)
	if err != nil {
		return Entry{}, f.fail(op, name, err)
	}
	info, err := p.tree.Lstat(p.name)
	if err != nil {
		return Entry{}, f.fail(op, p.path, err)
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return newEntry(p.path, nodeOfInfo(info)), nil
	}
	target, err := p.tree.Readlink(p.name)
	if err != nil {
		return Entry{}, f.fail(op, p.path, err)
	}
	if follow {
		if info, err = p.tree.Stat(p.name); err != nil {
			return Entry{}, f.fail(op, p.path, err)
		}
	}
	e := newEntry(p.path, nodeOfInfo(info))
	e.Link, e.Target = true, target
	return e, nil
}
