package filesystem

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Errors that a caller may branch on, with errors.Is. Beside them there are
// fs.ErrNotExist, fs.ErrExist and fs.ErrPermission, and the error of a context
// that ended. Every one of them comes in an [*Error].
var (
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("file system is closed")
	// ErrInvalidPath is returned for a path that can name nothing: with a NUL
	// byte, too long, relative with "..", empty where that has no meaning, or
	// with symbolic links that lead in a circle.
	ErrInvalidPath = errors.New("invalid path")
	// ErrOutside is returned for a path that leads out of the roots, by its
	// words or by a symbolic link.
	ErrOutside = errors.New("outside of the roots")
	// ErrUnknownRoot is returned by In for a name that no root has.
	ErrUnknownRoot = errors.New("no root of that name")
	// ErrRoot is returned for what may not be done to "/" or to a root: to
	// remove it, move it, or replace it.
	ErrRoot = errors.New("is a root")
	// ErrNotFile is returned for what is no regular file where one is needed.
	ErrNotFile = errors.New("not a regular file")
	// ErrNotDirectory is returned for what is no directory where one is needed.
	ErrNotDirectory = errors.New("not a directory")
	// ErrNotEmpty is returned for a directory that holds something.
	ErrNotEmpty = errors.New("directory not empty")
	// ErrIntoItself is returned by Move when one of the two paths lies below
	// the other one in a way that leaves nothing to move to.
	ErrIntoItself = errors.New("moved into itself")
	// ErrBusy is returned for what the system holds on to: a mount point, or a
	// program that is running.
	ErrBusy = errors.New("busy")
	// ErrEndless is returned for a file of /proc or /sys that waits for events
	// or does not come to an end.
	ErrEndless = errors.New("endless file")
	// ErrTooLarge is returned when a bound is exceeded.
	ErrTooLarge = errors.New("too large")
	// ErrNoSpace is returned when a disk is full, a quota is used up, or a
	// file would pass the limit for its size.
	ErrNoSpace = errors.New("no space left")
	// ErrChanged is returned by Write when the file is not the one that
	// WriteOptions.IfMatch names.
	ErrChanged = errors.New("file was changed")
	// ErrArchive is returned for an archive that is damaged or refused.
	ErrArchive = errors.New("bad archive")
)

// Error tells what failed and why. Its text is meant for people and agents, who
// know what they asked for: it names the path and, where there is one, the
// remedy, and leaves the operation out.
type Error struct {
	Op      string // what was done: "stat", "write", "move"
	Path    string // absolute, or as it was given when it is not valid
	Problem string // "path not found"
	Remedy  string // what to do instead; may be empty
	Kind    error  // one of the errors above; nil when the cause fits none
	Err     error  // the cause, often a syscall.Errno; may be nil
}

func (e *Error) Error() string {
	s := e.Problem
	if e.Path != "" {
		s += ": " + printable(e.Path)
	}
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Unwrap gives errors.Is the kind and the cause.
func (e *Error) Unwrap() []error {
	causes := make([]error, 0, 2)
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			causes = append(causes, err)
		}
	}
	return causes
}

// at names the path that an error inside of a larger operation is about. The
// exported method completes it with fail.
func at(path string, err error) error {
	if err == nil {
		return nil
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return &Error{Path: path, Err: err}
}

// fail makes the *Error that an exported method returns: about path, unless
// the error names another one. It returns nil for nil.
func (f *FS) fail(op, path string, err error) error {
	if err == nil {
		return nil
	}
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		e = &Error{Path: path, Err: err}
	}
	if e.Op == "" {
		e.Op = op
	}
	if e.Path == "" {
		e.Path = path
	}
	if e.Kind == nil && e.Problem == "" {
		e.Problem, e.Remedy, e.Kind = f.explain(e.Err)
	}
	return e
}

// explain sorts an error of the operating system into a kind, and says it in
// words.
func (f *FS) explain(err error) (problem, remedy string, kind error) {
	if f.escapes != nil && errors.Is(err, f.escapes) {
		return "path leads out of its root",
			"symbolic links that are absolute or climb out of the root are not followed", ErrOutside
	}
	errno := syscall.Errno(0)
	if errors.As(err, &errno) {
		for _, x := range explanations {
			if x.errno == errno {
				return x.problem, x.remedy, x.kind
			}
		}
		return errno.Error(), "", nil
	}
	switch {
	case errors.Is(err, os.ErrClosed):
		return ErrClosed.Error(), "", ErrClosed
	case errors.Is(err, fs.ErrNotExist):
		return "path not found", "", nil
	case errors.Is(err, fs.ErrExist):
		return "path already exists", "", nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "not finished: " + err.Error(), "", nil
	}
	return err.Error(), "", nil
}

// explanations say what the numbers of the operating system mean here.
var explanations = []struct {
	errno           syscall.Errno
	kind            error
	problem, remedy string
}{
	{syscall.ENOENT, fs.ErrNotExist, "path not found", ""},
	{syscall.EEXIST, fs.ErrExist, "path already exists", ""},
	{syscall.EACCES, fs.ErrPermission, "permission denied", ""},
	{syscall.EPERM, fs.ErrPermission, "operation not permitted", ""},
	{syscall.EROFS, fs.ErrPermission, "read-only file system", ""},
	{syscall.ENOTDIR, ErrNotDirectory, "path is not a directory", ""},
	{syscall.EISDIR, ErrNotFile, "path is not a file", ""},
	{syscall.ENXIO, ErrNotFile, "path is not a file", ""},
	{syscall.ENOTEMPTY, ErrNotEmpty, "directory not empty", ""},
	{syscall.EBUSY, ErrBusy, "in use by the system", "it may be a mount point"},
	{syscall.ETXTBSY, ErrBusy, "in use by a running program", "end the program first"},
	{syscall.ELOOP, ErrInvalidPath, "too many symbolic links", ""},
	{syscall.ENAMETOOLONG, ErrInvalidPath, "path or name too long", "a name has at most 255 bytes"},
	{syscall.EILSEQ, ErrInvalidPath, "name not accepted by this file system", ""},
	{syscall.ENOSPC, ErrNoSpace, "no space left on the disk", ""},
	{syscall.EDQUOT, ErrNoSpace, "disk quota exceeded", ""},
	{syscall.EFBIG, ErrNoSpace, "file too large for this file system or its limit", ""},
}

// printable is the path as it is when all of it can be shown on one line, else
// as a quoted Go string.
func printable(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return path
	}
	return strconv.Quote(path)
}
