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
// reached through symbolic links, and the name of something below it. No
// symbolic link below the directory is followed, in no component of the name,
// also when another process exchanges directories meanwhile: a link on the way is
// [ErrLink]. Names are relative and separated by slashes; a name that leads out
// of the directory is [ErrName].
//
// # Who does the work
//
// [Files] is what the packages above ask for. [Local] does the work with the
// rights of the calling thread, [Acting] with those of another user.
//
// No magic link of /proc (/proc/PID/cwd, root, fd) is followed on the way to a
// directory: it leads around the rights to what is above it. Kernels before Linux
// 5.6 cannot tell such links, and follow them.
//
// # Concurrency
//
// All methods may be called from any goroutine.
//
// # Errors
//
// [ErrLink], [ErrName], [ErrNotRegular], [ErrTooLarge], [ErrTooMany],
// [ErrLocked]; others are those of the operating system. All of them name the
// path.
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

	// ErrNotRegular says that there is something else in the place of a file.
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

	// Update replaces a file by what edit makes of it, atomically, while it holds
	// an advisory lock (flock) on the directory of the file, for which it waits
	// until ctx ends, and ten seconds at most. old is nil when there is no file:
	// dir and the directories below it are made, and the file gets the mode 0600.
	// When edit returns nil or an error the file stays as it is.
	Update(ctx context.Context, dir, name string, limit int64, edit func(old []byte) ([]byte, error)) error

	// List returns the regular files below a folder, but for folders named .git
	// and links. Folders that are nested deeper than depth are left out. More
	// than limit entries are ErrTooMany.
	List(dir, name string, depth, limit int) ([]Entry, error)

	// WriteTree makes a folder of files, in place of what has that name.
	WriteTree(dir, name string, files []File) error

	// RemoveAll removes a file, a link or a folder with all that is in it. What
	// does not exist is no error.
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
