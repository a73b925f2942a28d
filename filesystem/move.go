package filesystem

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// MoveOptions say how a move is done.
type MoveOptions struct {
	// Overwrite replaces what is at the destination, a directory with all
	// that is in it. Without it the move fails with fs.ErrExist when there is
	// something.
	Overwrite bool
}

// Move moves a file, a symbolic link (never what it leads to) or a directory to
// another path, which is not the directory to put it into but the whole new
// name. Missing directories above it are made.
//
// What is at the destination is removed only once the source is in its place;
// when the move fails, both are as they were. Moving something onto itself does
// nothing. Moving a directory below itself, or something onto a directory that
// holds it, is refused with ErrIntoItself.
//
// Between file systems, the source is copied to a hidden name beside the
// destination, put on the disk, renamed, and only then removed. Modes, times,
// links, holes, extended attributes and, where the system allows it, owners are
// kept; names of one file (hard links) become files of their own. The context
// can end the copying, nothing after that.
//
// When all is in place and only removing what is no longer wanted fails, the
// error says so and names what is left.
func (f *FS) Move(ctx context.Context, from, to string, options MoveOptions) error {
	const op = "move"
	if err := f.enter(); err != nil {
		return f.fail(op, from, err)
	}
	defer f.leave()
	source, err := f.locateEntry(from)
	if err != nil {
		return f.fail(op, from, err)
	}
	target, err := f.locateEntry(to)
	if err != nil {
		return f.fail(op, to, err)
	}
	m := mover{fs: f, options: options, alive: f.alive(ctx), source: source, target: target}
	defer m.close()
	err = m.alive()
	if err == nil {
		err = m.open()
	}
	if err == nil {
		err = m.move()
	}
	return f.fail(op, target.path, err)
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

// open finds the source, and then the directory that it is to be in.
func (m *mover) open() (err error) {
	if m.from, m.fromName, err = openParent(m.source); err != nil {
		return err
	}
	if m.node, err = m.from.stat(m.fromName); err != nil {
		return at(m.source.path, err)
	}
	if err := m.fs.mayMove(m.source, m.node); err != nil {
		return err
	}
	if m.node.isDir() && m.source.path != m.target.path {
		// Before any directory is made, for that could be in the source.
		if err := m.refuseIntoItself(); err != nil {
			return err
		}
	}
	m.to, m.toName, err = m.fs.makeParent(m.target)
	return err
}

func (m *mover) refuseIntoItself() error {
	if m.target.name == "." {
		return nil // is refused as a root
	}
	dir, err := openFolder(m.target.parent().nearest(), folderHold)
	if err != nil {
		return err
	}
	defer dir.close()
	if dir.isBelow(m.node) {
		return &Error{
			Path: m.target.path, Problem: "a directory cannot be moved below itself", Remedy: "move it elsewhere",
			Kind: ErrIntoItself,
		}
	}
	return nil
}

// move looks at what is at the destination and does what that needs. Others may
// put something there meanwhile, or take it away.
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
			return at(m.target.path, err)
		default:
			return m.moveOnto(old)
		}
		switch err {
		case unix.EEXIST:
		case unix.ENOENT: // it has just been taken away
			return at(m.source.path, err)
		default:
			return at(m.target.path, err)
		}
	}
	return at(m.target.path, unix.EEXIST)
}

// moveOnto moves to where something is.
func (m *mover) moveOnto(old node) error {
	if old.is(m.node) {
		if same, err := m.sameName(); same || err != nil {
			return err
		}
	}
	if !m.options.Overwrite {
		return &Error{
			Path: m.target.path, Problem: "destination already exists", Remedy: "overwrite replaces it",
			Kind: fs.ErrExist, Err: unix.EEXIST,
		}
	}
	if err := m.fs.mayMove(m.target, old); err != nil {
		return err
	}
	if old.isDir() && m.from.isBelow(old) {
		return &Error{
			Path: m.target.path, Problem: "destination holds what is to be moved there",
			Remedy: "move it elsewhere first", Kind: ErrIntoItself,
		}
	}
	if old.is(m.node) && !old.isDir() {
		// rename(2) does nothing for two names of one file.
		return at(m.source.path, m.from.unlink(m.fromName))
	}
	err := replace(m.from, m.fromName, m.node, m.to, m.toName, old)
	if err == unix.EXDEV {
		return m.copy(&old)
	}
	return at(m.target.path, err)
}

// sameName tells that source and destination are one entry of one directory,
// however they were written.
func (m *mover) sameName() (bool, error) {
	from, err := m.from.self()
	if err != nil {
		return false, at(m.from.path, err)
	}
	to, err := m.to.self()
	if err != nil {
		return false, at(m.to.path, err)
	}
	return from.is(to) && m.fromName == m.toName, nil
}

// copy moves to another file system. old is what is at the destination, nil if
// nothing is.
func (m *mover) copy(old *node) error {
	temp := hiddenName(tempSuffix)
	discard := func() { _ = removeEntry(m.to, temp, uninterrupted) }
	err := copyTree(m.from, m.fromName, m.to, temp, m.alive)
	if err == nil {
		err = syncTree(m.to, temp, m.node)
	}
	if err != nil {
		discard()
		return at(m.target.path, err)
	}
	// The source is put aside first, which needs the same rights as removing
	// it: if that is refused, nothing has happened yet.
	aside := hiddenName(asideSuffix)
	if err := m.from.rename(m.fromName, m.from, aside, 0); err == unix.EXDEV {
		aside = m.fromName // a directory of an overlay's lower layer cannot be renamed at all
	} else if err != nil {
		discard()
		return at(m.source.path, err)
	}
	if old == nil {
		err = renameNew(m.to, temp, m.to, m.toName)
	} else if err = replace(m.to, temp, m.node, m.to, m.toName, *old); err == unix.EXDEV {
		err = m.removeFirst(temp)
	}
	if left := (*leftError)(nil); err != nil && !errors.As(err, &left) {
		_ = m.from.rename(aside, m.from, m.fromName, 0)
		discard()
		return at(m.target.path, err)
	}
	m.to.sync()
	if removing := removeEntry(m.from, aside, uninterrupted); removing != nil {
		return leftOver("moved, but the source could not be removed wholly", removing)
	}
	return err
}

// removeFirst replaces what can be removed, but not renamed: a directory of an
// overlay's lower layer. Nothing but the removal can fail, the new content is
// there.
func (m *mover) removeFirst(temp string) error {
	if err := removeEntry(m.to, m.toName, uninterrupted); err != nil {
		return err
	}
	return renameNew(m.to, temp, m.to, m.toName)
}
