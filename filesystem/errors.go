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

// Errors that a caller may branch on, with errors.Is, in addition to fs.ErrNotExist,
// fs.ErrExist, fs.ErrPermission and the error of a context. An [*Error] wraps each of them.
var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("file system is closed")
	// ErrInvalidPath is returned for a path with a NUL byte, a relative path with "..",
	// a path that is too long, an empty path unless the comment of the method gives it a
	// meaning, and for symbolic links that form a circle.
	ErrInvalidPath = errors.New("invalid path")
	// ErrOutside is returned for a path that leads out of the roots, also through a
	// symbolic link.
	ErrOutside = errors.New("outside of the roots")
	// ErrUnknownRoot is returned by In for a name that no root has.
	ErrUnknownRoot = errors.New("no root of that name")
	// ErrRoot is returned by calls that would remove, move or replace "/" or a root.
	ErrRoot = errors.New("is a root")
	// ErrNotFile is returned if a path is not a regular file.
	ErrNotFile = errors.New("not a regular file")
	// ErrNotDirectory is returned if a path is not a directory.
	ErrNotDirectory = errors.New("not a directory")
	// ErrNotEmpty is returned by Remove for a directory that is not empty.
	ErrNotEmpty = errors.New("directory not empty")
	// ErrIntoItself is returned by Move if one of the paths is below the other one.
	ErrIntoItself = errors.New("moved into itself")
	// ErrBusy is returned for a mount point, for a program that runs, and for a symbolic
	// link that another program replaces meanwhile.
	ErrBusy = errors.New("busy")
	// ErrEndless is returned for a file of /proc or /sys that waits for events or does
	// not end.
	ErrEndless = errors.New("endless file")
	// ErrTooLarge is returned if a limit is exceeded.
	ErrTooLarge = errors.New("too large")
	// ErrNoSpace is returned if a disk is full, a quota is used up, or a file would
	// exceed the limit for its size.
	ErrNoSpace = errors.New("no space left")
	// ErrChanged is returned by Write if the file does not have the ETag of
	// WriteOptions.IfMatch.
	ErrChanged = errors.New("file was changed")
	// ErrArchive is returned for an archive that is damaged or not permitted.
	ErrArchive = errors.New("bad archive")
	// ErrPattern is wrapped by every *InvalidError.
	ErrPattern = errors.New("bad pattern")
)

// InvalidError names a pattern of SearchOptions that was refused. It wraps ErrPattern.
type InvalidError struct {
	Field  string // "glob", "text" or "regexp"
	Reason string // "longer than 4096 bytes"
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap returns ErrPattern.
func (e *InvalidError) Unwrap() error { return ErrPattern }

// Error is the error of every method. Its text is for people and agents: it names the path
// and the remedy, and leaves the operation out.
type Error struct {
	Op     string // the operation: "stat", "write", "move"
	Path   string // absolute, or as given if it is not valid
	Reason string // "path not found"
	Remedy string // what to do; may be empty
	Kind   error  // one of the errors above, or nil
	Err    error  // the cause, often a syscall.Errno; may be nil
}

// newError makes an Error without a cause. path and remedy may be empty.
func newError(kind error, path, reason, remedy string) *Error {
	return &Error{Path: path, Reason: reason, Remedy: remedy, Kind: kind}
}

func (e *Error) Error() string {
	s := e.Reason
	if e.Path != "" {
		s += ": " + printable(e.Path)
	}
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	causes := make([]error, 0, 2)
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			causes = append(causes, err)
		}
	}
	return causes
}

// withPath adds a path to an error that has none. The exported method completes it with fail.
func withPath(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return &Error{Path: path, Err: err}
}

// fail makes the *Error that an exported method returns. Its path is path, unless the error
// has another one. fail returns nil for nil.
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
	if e.Kind == nil && e.Reason == "" {
		e.Reason, e.Remedy, e.Kind = f.explain(e.Err)
	}
	return e
}

// explain returns the reason, the remedy and the kind of an error of the operating system.
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

func (f *FS) reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Reason != "" {
		return e.Reason
	}
	problem, _, _ := f.explain(err)
	return problem
}

// explanations are the meanings of the errors of the operating system.
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

// printable returns a path unchanged if it can be shown on one line, else as a quoted Go
// string.
func printable(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return path
	}
	return strconv.Quote(path)
}
