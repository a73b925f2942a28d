package filesystem

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// MoveOptions configure Move.
type MoveOptions struct {
	// Overwrite replaces the destination, a directory with all its content. Without it
	// the error is fs.ErrExist if the destination exists.
	Overwrite bool
}

// Move moves a file, a symbolic link (without following it) or a directory to another path,
// which is the complete new name and not a directory to put it into. Missing directories
// above the destination are made.
//
// An old destination is removed after the source is in its place. If the move fails, both are
// unchanged. Moving a file onto itself does nothing.
//
// The error is fs.ErrNotExist if the source does not exist, ErrRoot for a root and for a
// directory that contains one, and ErrIntoItself for a directory that would move below itself
// and for a destination that contains the source.
//
// Between file systems, the source is copied to a hidden name beside the destination, synced,
// renamed and then removed. Modes, times, links, holes, extended attributes and, where the
// system permits it, owners are kept. Hard links become separate files. The error is ErrTooLarge
// for a directory with more than 255 levels below it. The context can end the copy, but no later
// step.
//
// If the move is complete and only a removal fails, the error says so and names the rest.
func (f *FS) Move(ctx context.Context, from, to string, options MoveOptions) error {
	return f.call("move", from, f.locateEntry, func(source place) error {
		target, err := f.locateEntry(to)
		if err != nil {
			return withPath(to, err)
		}
		m := mover{fs: f, options: options, alive: f.alive(ctx), source: source, target: target}
		defer m.close()
		if err = m.alive(); err == nil {
			err = m.open()
		}
		if err == nil {
			err = m.move()
		}
		return f.fail("move", target.path, err)
	})
}

// mover is one Move.
type mover struct {
	fs             *FS
	options        MoveOptions
	alive          aliveFunc
	source, target place

	from, to         folder // to is open unless there is nothing to do
	fromName, toName string
	node             node // the source
}

func (m *mover) close() {
	for _, d := range []folder{m.from, m.to} {
		if d.file != nil {
			d.close()
		}
	}
}

// open opens the directory of the source, and then the directory of the destination.
func (m *mover) open() (err error) {
	if m.from, m.fromName, err = openParent(m.source); err != nil {
		return err
	}
	if m.node, err = m.from.stat(m.fromName); err != nil {
		return withPath(m.source.path, err)
	}
	if err := m.fs.mayMove(m.source, m.node); err != nil {
		return err
	}
	if m.node.isDir() && m.source.path != m.target.path {
		// Before any directory is made, which could be in the source.
		if err := m.refuseIntoItself(); err != nil {
			return err
		}
	}
	m.to, m.toName, err = m.fs.makeParent(m.target)
	return err
}

func (m *mover) refuseIntoItself() error {
	if m.target.name == "." {
		return nil // an error for a root follows
	}
	dir, err := openFolder(m.target.parent().nearest(), folderHold)
	if err != nil {
		return err
	}
	defer dir.close()
	if dir.isBelow(m.node) {
		return newError(ErrIntoItself, m.target.path, "a directory cannot be moved below itself", "move it elsewhere")
	}
	return nil
}

// move moves to the destination, which other programs may make or remove meanwhile.
func (m *mover) move() error {
	for range 10 {
		old, err := m.to.stat(m.toName)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = renameNew(m.from, m.fromName, m.to, m.toName)
			if err == unix.EXDEV {
				return m.copy(nil)
			}
		case err != nil:
			return withPath(m.target.path, err)
		default:
			return m.moveOnto(old)
		}
		switch err {
		case unix.EEXIST:
		case unix.ENOENT: // it has just been removed
			return withPath(m.source.path, err)
		default:
			return withPath(m.target.path, err)
		}
	}
	return withPath(m.target.path, unix.EEXIST)
}

func (m *mover) moveOnto(old node) error {
	if old.is(m.node) {
		if same, err := m.sameName(); same || err != nil {
			return err
		}
	}
	if !m.options.Overwrite {
		return &Error{
			Path: m.target.path, Reason: "destination already exists", Remedy: "overwrite replaces it",
			Kind: fs.ErrExist, Err: unix.EEXIST,
		}
	}
	if err := m.fs.mayMove(m.target, old); err != nil {
		return err
	}
	if old.isDir() && m.from.isBelow(old) {
		return newError(ErrIntoItself, m.target.path, "destination holds what is to be moved there", "move it elsewhere first")
	}
	if old.is(m.node) && !old.isDir() {
		// rename(2) does nothing for two names of one file.
		return withPath(m.source.path, m.from.unlink(m.fromName))
	}
	err := replace(m.from, m.fromName, m.node, m.to, m.toName, old)
	if err == unix.EXDEV {
		return m.copy(&old)
	}
	return withPath(m.target.path, err)
}

// sameName reports whether source and destination are the same entry of a directory.
func (m *mover) sameName() (bool, error) {
	from, err := m.from.self()
	if err != nil {
		return false, withPath(m.from.path, err)
	}
	to, err := m.to.self()
	if err != nil {
		return false, withPath(m.to.path, err)
	}
	return from.is(to) && m.fromName == m.toName, nil
}

// copy moves to another file system. old is the old destination, or nil.
func (m *mover) copy(old *node) error {
	temp := hiddenName(tempSuffix)
	discard := func() { _ = removeEntry(m.to, temp, uninterrupted) }
	err := copyTree(m.from, m.fromName, m.to, temp, maxLevels, m.alive)
	if err == nil {
		err = syncTree(m.to, temp, m.node)
	}
	if err != nil {
		discard()
		return withPath(m.target.path, err)
	}
	// The source is renamed first, which needs the same rights as removing it, so a
	// failure changes nothing.
	aside := hiddenName(asideSuffix)
	if err := m.from.rename(m.fromName, m.from, aside, 0); err == unix.EXDEV {
		aside = m.fromName // a directory of an overlay's lower layer cannot be renamed at all
	} else if err != nil {
		discard()
		return withPath(m.source.path, err)
	}
	if old == nil {
		err = renameNew(m.to, temp, m.to, m.toName)
	} else if err = replace(m.to, temp, m.node, m.to, m.toName, *old); err == unix.EXDEV {
		err = m.removeFirst(temp)
	}
	if left := (*leftError)(nil); err != nil && !errors.As(err, &left) {
		_ = m.from.rename(aside, m.from, m.fromName, 0)
		discard()
		return withPath(m.target.path, err)
	}
	m.to.sync()
	if removing := removeEntry(m.from, aside, uninterrupted); removing != nil {
		return leftOver("moved, but the source could not be removed wholly", removing)
	}
	return err
}

// removeFirst replaces a destination that can be removed but not renamed: a directory of an
// overlay's lower layer.
func (m *mover) removeFirst(temp string) error {
	if err := removeEntry(m.to, m.toName, uninterrupted); err != nil {
		return err
	}
	return renameNew(m.to, temp, m.to, m.toName)
}
