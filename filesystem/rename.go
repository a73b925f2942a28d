package filesystem

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// renameNew renames to a new name, and returns EEXIST if the name exists. Some network file
// systems cannot guarantee this for directories: for a moment an empty directory would be
// replaced.
func renameNew(from folder, name string, to folder, newName string) error {
	err := from.rename(name, to, newName, unix.RENAME_NOREPLACE)
	if unsupported(err) {
		return linkNew(from, name, to, newName)
	}
	return err
}

// linkNew is like renameNew, without renameat2(2).
func linkNew(from folder, name string, to folder, newName string) error {
	if err := unix.Linkat(from.fd, name, to.fd, newName, 0); err == nil {
		return from.unlink(name)
	} else if err == unix.EEXIST || err == unix.EXDEV {
		return err
	}
	// Directories cannot have hard links, and some file systems have none.
	if _, err := to.stat(newName); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = unix.EEXIST
		}
		return err
	}
	return from.rename(name, to, newName, 0)
}

// replace renames to an existing name, and removes the old entry afterwards.
func replace(from folder, name string, n node, to folder, newName string, old node) error {
	if !n.isDir() && !old.isDir() {
		return from.rename(name, to, newName, 0)
	}
	err := from.rename(name, to, newName, unix.RENAME_EXCHANGE)
	if unsupported(err) {
		return replaceAside(from, name, to, newName)
	}
	if err != nil {
		return err
	}
	// The old entry has the source's name now. It must not keep that name even if it
	// cannot be removed, or the next attempt would move it.
	aside := hiddenName(asideSuffix)
	if err := from.rename(name, from, aside, 0); err != nil {
		aside = name
	}
	return removeReplaced(from, aside)
}

// replaceAside is like replace, for file systems that cannot exchange names.
func replaceAside(from folder, name string, to folder, newName string) error {
	aside := hiddenName(asideSuffix)
	if err := to.rename(newName, to, aside, 0); err != nil {
		return err
	}
	if err := renameNew(from, name, to, newName); err != nil {
		_ = to.rename(aside, to, newName, 0)
		return err
	}
	return removeReplaced(to, aside)
}

func removeReplaced(dir folder, name string) error {
	if err := removeEntry(dir, name, uninterrupted); err != nil {
		return leftOver("moved, but what was at the destination could not be removed wholly", err)
	}
	return nil
}

// leftError is the cause of an error of a move that is complete except for a removal.
type leftError struct{ err error }

func (e *leftError) Error() string { return e.err.Error() }
func (e *leftError) Unwrap() error { return e.err }

// leftOver returns the error of a move that is complete except for a removal, which err names.
func leftOver(problem string, err error) error {
	e := &Error{Reason: problem, Err: &leftError{err}}
	if inner := (*Error)(nil); errors.As(err, &inner) {
		e.Path, e.Err = inner.Path, &leftError{inner.Err}
		e.Remedy = "remove that"
	}
	return e
}
