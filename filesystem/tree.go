package filesystem

import (
	"io/fs"
	"os"
)

// tree is a file tree. Names are relative, cleaned and separated by slashes; "." is the top.
//
// There are two implementations. An *os.Root never lets a name lead out of it, even if another
// program exchanges directories meanwhile. It also rejects absolute symbolic links, of which a
// normal system has many. So the whole file system is a [wholeTree], which uses package os.
type tree interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Remove(name string) error
	Close() error
}

var (
	_ tree = (*os.Root)(nil)
	_ tree = wholeTree{}
)

// wholeTree is the whole file system.
type wholeTree struct{}

func (wholeTree) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile("/"+name, flag, perm)
}

func (wholeTree) Stat(name string) (fs.FileInfo, error)        { return os.Stat("/" + name) }
func (wholeTree) Lstat(name string) (fs.FileInfo, error)       { return os.Lstat("/" + name) }
func (wholeTree) Readlink(name string) (string, error)         { return os.Readlink("/" + name) }
func (wholeTree) Mkdir(name string, perm fs.FileMode) error    { return os.Mkdir("/"+name, perm) }
func (wholeTree) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll("/"+name, perm) }
func (wholeTree) Remove(name string) error                     { return os.Remove("/" + name) }
func (wholeTree) Close() error                                 { return nil }
