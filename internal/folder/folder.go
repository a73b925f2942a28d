// Package folder reads and writes below directories whose content is not
// trusted, such as the folder of an agent's session.
//
// # Usage
//
//	var files folder.Local
//	text, err := files.Read("/home/user/project", ".sandbox-agent/config/mcp.json", 1<<20)
//	err = files.WriteTree("/home/user/project", ".claude/skills/review", []folder.File{{Name: "SKILL.md", Content: text}})
//
// # Links
//
// Each method takes a directory, which its caller trusts and which may be
// reached through symbolic links, and the name of a file or folder below it. No
// symbolic link below the directory is followed, in any component of the name, even
// if another process exchanges directories meanwhile. A link in a name is [ErrLink].
// Names are relative and separated by slashes; a name that leads out of the
// directory is [ErrName].
//
// # Rights
//
// [Files] is the interface that callers use. [Local] works with the rights of the
// calling thread, [Acting] with the rights of another user.
//
// A magic link of /proc (/proc/PID/cwd, root, fd) in the path of the directory is
// refused, because it bypasses the permissions of the directories above its target.
// Kernels before Linux 5.6 cannot detect magic links, and follow them.
//
// # Concurrency
//
// All methods may be called from any goroutine.
//
// # Errors
//
// [ErrLink], [ErrName], [ErrNotRegular], [ErrTooLarge], [ErrTooMany] and
// [ErrLocked]. All other errors come from the operating system. Every error names
// the path.
//
// # Requirements
//
// Linux.
package folder

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

var (
	// ErrLink says that a component of a name is a symbolic link.
	ErrLink = errors.New("is a symbolic link, and none is followed here; replace it by what it points to")

	// ErrName says that a name is empty, absolute, or leads out of its directory.
	ErrName = errors.New("must name something below the folder")

	// ErrNotRegular says that a path is not a regular file.
	ErrNotRegular = errors.New("not a regular file")

	// ErrTooLarge says that a file has more bytes than the caller allows.
	ErrTooLarge = errors.New("is too large")

	// ErrTooMany says that a folder has more files, or is nested deeper, than the
	// caller allows.
	ErrTooMany = errors.New("has too many files or folders")

	// ErrLocked says that another program kept the lock for ten seconds.
	ErrLocked = errors.New("locked by another program")
)

// Files reads and writes below a directory.
type Files interface {
	// Read returns the content of a regular file of at most limit bytes.
	Read(dir, name string, limit int64) ([]byte, error)

	// Update replaces a file by the text that edit returns, atomically. It holds an
	// advisory lock (flock) on the file's directory, for which it waits until ctx
	// ends, and ten seconds at most. If there is no file, old is nil, dir and the
	// directories below it are made, and the file gets the mode 0600. If edit
	// returns nil or an error, the file does not change.
	Update(ctx context.Context, dir, name string, limit int64, edit func(old []byte) ([]byte, error)) error

	// List returns the regular files below a folder. It skips links, folders named
	// .git, and folders that are nested deeper than depth. The error is ErrTooMany
	// if there are more than limit entries.
	List(dir, name string, depth, limit int) ([]Entry, error)

	// WriteTree makes a folder of files. It replaces anything that has that name.
	WriteTree(dir, name string, files []File) error

	// RemoveAll removes a file, a link, or a folder and its content. It returns nil
	// if the name does not exist.
	RemoveAll(dir, name string) error
}

// Entry is a regular file that List found.
type Entry struct {
	Name    string // relative to the listed folder
	Size    int64
	Mode    fs.FileMode
	ModTime time.Time
}

// File is a file of WriteTree.
type File struct {
	Name    string // relative to the folder that is made
	Mode    fs.FileMode
	Content []byte
}

// Local does the work in this process.
type Local struct{}

var _ Files = Local{}
