package filesystem

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// renameNew renames to a name that nothing has, else it fails with EEXIST. On
// file systems that cannot promise this for directories (some network file
// systems), a moment remains in which an empty directory would be replaced.
func renameNew(from folder, name string, to folder, newName string) error {
	err := from.rename(name, to, newName, unix.RENAME_NOREPLACE)
	if unsupported(err) {
		return linkNew(from, name, to, newName)
	}
	return err
}

// linkNew is renameNew without the help of renameat2(2).
func linkNew(from folder, name string, to folder, newName string) error {
	if err := unix.Linkat(from.fd, name, to.fd, newName, 0); err == nil {
		return from.unlink(name)
	} else if err == unix.EEXIST || err == unix.EXDEV {
		return err
	}
	// What has no hard links: directories, and simple file systems.
	if _, err := to.stat(newName); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = unix.EEXIST
		}
		return err
	}
	return from.rename(name, to, newName, 0)
}

// replace renames to a name that something has, and removes that afterwards.
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
	// What was at the destination has the source's name now. It must not keep
	// that even if it cannot be removed, or the next attempt would move it.
	aside := hiddenName(asideSuffix)
	if err := from.rename(name, from, aside, 0); err != nil {
		aside = name
	}
	return removeReplaced(from, aside)
}

// replaceAside is replace where names cannot be exchanged.
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

// leftError is the cause of an error after which all is in place, and something
// else as well.
type leftError struct{ err error }

func (e *leftError) Error() string { return e.err.Error() }
func (e *leftError) Unwrap() error { return e.err }

// leftOver says that a move is done but for removing something. err names it.
func leftOver(problem string, err error) error {
	e := &Error{Reason: problem, Err: &leftError{err}}
	if inner := (*Error)(nil); errors.As(err, &inner) {
		e.Path, e.Err = inner.Path, &leftError{inner.Err}
		e.Remedy = "remove that"
	}
	return e
}
