package filesystem

import (
	"io/fs"
	"os"
	"time"
)

// tree is a file tree and what is done in it by name. Names are relative,
// cleaned and separated by slashes; "." is the top.
//
// It has two forms. An *os.Root never lets a name lead out of it, whatever
// symbolic links say and whoever exchanges directories meanwhile. It also
// refuses absolute symbolic links, of which a normal system is full; so the
// whole file system is a [wholeTree], which goes through package os.
type tree interface {
	Open(name string) (*os.File, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	OpenRoot(name string) (*os.Root, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Symlink(oldname, newname string) error
	Chmod(name string, mode fs.FileMode) error
	Chtimes(name string, atime, mtime time.Time) error
	Remove(name string) error
	Close() error
}

var (
	_ tree = (*os.Root)(nil)
	_ tree = wholeTree{}
)

// wholeTree is everything below "/".
type wholeTree struct{}

func (wholeTree) Open(name string) (*os.File, error) { return os.Open("/" + name) }

func (wholeTree) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile("/"+name, flag, perm)
}

func (wholeTree) OpenRoot(name string) (*os.Root, error)       { return os.OpenRoot("/" + name) }
func (wholeTree) Stat(name string) (fs.FileInfo, error)        { return os.Stat("/" + name) }
func (wholeTree) Lstat(name string) (fs.FileInfo, error)       { return os.Lstat("/" + name) }
func (wholeTree) Readlink(name string) (string, error)         { return os.Readlink("/" + name) }
func (wholeTree) Mkdir(name string, perm fs.FileMode) error    { return os.Mkdir("/"+name, perm) }
func (wholeTree) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll("/"+name, perm) }
func (wholeTree) Chmod(name string, mode fs.FileMode) error    { return os.Chmod("/"+name, mode) }
func (wholeTree) Remove(name string) error                     { return os.Remove("/" + name) }
func (wholeTree) Close() error                                 { return nil }

func (wholeTree) Symlink(oldname, newname string) error {
	return os.Symlink(oldname, "/"+newname)
}

func (wholeTree) Chtimes(name string, atime, mtime time.Time) error {
	return os.Chtimes("/"+name, atime, mtime)
}
