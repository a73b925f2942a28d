// Package folder reads and writes below directories whose content is not
// trusted, such as the folder of an agent's session.
//
// # Usage
//
//	var files folder.Files
//	text, err := files.Read("/home/user/project", ".sandbox-agent/config/mcp.json", 1<<20)
//	err = files.WriteTree(ctx, "/home/user/project", ".claude/skills/review", []folder.File{{Name: "SKILL.md", Content: text}})
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
// The zero [Files] works with the rights of the calling thread, [Acting] with the rights of
// another user.
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

	// ErrTooMany says that a folder has more files than the caller allows.
	ErrTooMany = errors.New("has too many files or folders")

	// ErrLocked says that another program kept the lock for ten seconds.
	ErrLocked = errors.New("locked by another program")
)

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
