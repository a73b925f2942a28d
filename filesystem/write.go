package filesystem

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// WriteOptions say how a file is written. The zero value replaces or makes it,
// whole and safe on the disk, or not at all.
type WriteOptions struct {
	// Append adds to the end of the file instead of replacing it.
	Append bool
	// Exclusive fails with fs.ErrExist when there is something of that name
	// already, be it a symbolic link that leads nowhere.
	Exclusive bool
	// IfMatch fails with ErrChanged unless there is a file with that ETag;
	// "*" is any file. Of two calls with the same ETag only one succeeds.
	IfMatch string
	// Mode is the permission bits that the file has afterwards. Zero means
	// those that it had, or 0666 less the umask for a new file.
	Mode fs.FileMode
	// NoSync does not wait for the disk. The file is still replaced as a
	// whole, but a power failure may undo that or, on some file systems,
	// leave the file empty.
	NoSync bool
}

// Write writes what r gives to a file and tells how many bytes that were.
//
// The content is received into a temporary file in the same directory, which
// then takes the name in one step. So a reader of the file sees the old content
// or the new, and whatever goes wrong, be it that r fails, the context ends,
// the disk is full or the machine, the old content is there as it was.
//
// Directories above that are missing are made, and stay when the write fails.
// Through a symbolic link its target is written, or made when there is none.
// What is no regular file is refused with ErrNotFile. The permission bits, the
// access control list, extended user attributes and, where the system allows
// it, owner and group of a file that was there are kept; its setuid and setgid
// bits are dropped; it is a new file to those who have the old one open, and to
// its other names.
//
// Where a name cannot be given (a file that is itself a mount point, as
// /etc/hosts often is in containers, or one in a directory that may not be
// written to), the content is received whole, in Config.TempDir if need be, and
// copied over the old content. Only a failure during that last step, whose
// space on the disk is reserved before it begins, can leave a mixture.
//
// With Append the content is received whole, too, before the file is touched,
// and what was added is taken back if adding it fails.
//
// The context is looked at between reads of r; it does not interrupt them.
func (f *FS) Write(ctx context.Context, name string, r io.Reader, options WriteOptions) (int64, error) {
	const op = "write"
	if err := f.enter(); err != nil {
		return 0, f.fail(op, name, err)
	}
	defer f.leave()
	p, err := f.locateEntry(name)
	if err != nil {
		return 0, f.fail(op, name, err)
	}
	if p.name == "." {
		return 0, f.fail(op, p.path, mustBeFile(fs.ModeDir))
	}
	t, err := f.resolve(p, options.Exclusive)
	if err != nil {
		return 0, f.fail(op, p.path, err)
	}
	defer t.dir.close()
	w := writer{fs: f, target: t, options: options, alive: f.alive(ctx)}
	if err := w.check(t.old, t.exists); err != nil {
		return 0, f.fail(op, p.path, err)
	}
	n, err := int64(0), error(nil)
	if options.Append && t.exists {
		n, err = w.append(r)
	} else {
		n, err = w.replace(r)
	}
	return n, f.fail(op, p.path, err)
}

// writer is one Write.
type writer struct {
	fs      *FS
	target  target
	options WriteOptions
	alive   aliveFunc
}

// check looks at what has the name that is to be written.
func (w *writer) check(old node, exists bool) error {
	switch {
	case exists && w.options.Exclusive:
		return unix.EEXIST
	case exists && !old.isRegular():
		return mustBeFile(old.mode)
	case w.options.IfMatch == "":
		return nil
	case !exists, w.options.IfMatch != "*" && w.options.IfMatch != newEntry("", old).ETag():
		return &Error{Problem: "file was changed meanwhile", Remedy: "read it again", Kind: ErrChanged}
	}
	return nil
}

// replace receives the content into a temporary file and gives it the name.
func (w *writer) replace(r io.Reader) (int64, error) {
	t := w.target
	perm := uint32(0o666)
	if t.exists || w.options.Mode != 0 {
		perm = 0o600 // until the content is whole
	}
	temp, err := w.fs.newTemporary(t.dir, perm)
	switch {
	case err == nil:
	case t.exists && denied(err):
		return w.replaceContent(r)
	default:
		return 0, err
	}
	defer temp.discard()
	n, err := receive(temp.file, r, !w.options.NoSync, w.alive)
	if err != nil {
		return 0, err
	}
	w.dress(temp.file)
	if !w.options.NoSync {
		if err := syncFile(temp.file); err != nil {
			return 0, err
		}
	}
	switch err := w.publish(temp); {
	case err == nil:
	case err == unix.EEXIST && w.options.Append:
		if _, err := temp.file.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		return w.append(temp.file)
	case t.exists && (denied(err) || err == unix.EBUSY || err == unix.EXDEV):
		if err := w.overwrite(temp.file, n); err != nil {
			return 0, err
		}
	default:
		return 0, err
	}
	if !w.options.NoSync {
		t.dir.sync()
	}
	w.fs.sweep(t.dir, w.alive)
	return n, nil
}

// denied tells that an error is about the directory rather than the file.
func denied(err error) bool {
	return err == unix.EACCES || err == unix.EPERM || err == unix.EROFS
}

// publish gives the content its name, if the conditions still hold.
func (w *writer) publish(temp *temporary) error {
	t := w.target
	if w.options.IfMatch == "" {
		w.fs.commit.RLock()
		defer w.fs.commit.RUnlock()
		return temp.publish(t.name, !w.options.Exclusive && (t.exists || !w.options.Append))
	}
	w.fs.commit.Lock()
	defer w.fs.commit.Unlock()
	old, err := t.dir.stat(t.name)
	if err := w.check(old, err == nil); err != nil {
		return err
	}
	return temp.publish(t.name, true)
}

// replaceContent is replace for where no temporary file can be in the directory.
func (w *writer) replaceContent(r io.Reader) (int64, error) {
	// A file that may not be written to is found before its content comes.
	file, err := w.target.dir.open(w.target.name, unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	file.Close()
	spool, err := w.fs.newSpool()
	if err != nil {
		return 0, err
	}
	defer spool.discard()
	n, err := receive(spool.file, r, false, w.alive)
	if err != nil {
		return 0, err
	}
	if err := w.overwrite(spool.file, n); err != nil {
		return 0, err
	}
	return n, nil
}

// overwrite copies content of a known size over that of the file.
func (w *writer) overwrite(content io.ReadSeeker, size int64) error {
	file, err := w.target.dir.open(w.target.name, unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	old, err := nodeOfFile(file)
	if err != nil {
		return err
	}
	defer w.fs.lockContent(old.id())()
	if old, err = nodeOfFile(file); err != nil {
		return err
	}
	if err := w.check(old, true); err != nil {
		return err
	}
	if w.target.confined && old.links > 1 {
		return severalNames()
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := reserve(file, size); err != nil {
		_ = file.Truncate(old.size)
		return err
	}
	if _, err := receive(file, content, false, w.alive); err != nil {
		return err
	}
	if err := file.Truncate(size); err != nil && !pseudo(file) {
		return err
	}
	if mode := w.mode(); mode != old.mode.Perm() || old.mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		_ = file.Chmod(mode) // the system drops setuid for all but root
	}
	if w.options.NoSync {
		return nil
	}
	return syncFile(file)
}

// severalNames refuses to change a file that may have a name outside of the
// root as well.
func severalNames() error {
	return &Error{
		Problem: "file has several names (hard links), and its directory allows no replacing it", Kind: fs.ErrPermission,
	}
}

// reserve makes sure that there is space for a file of that size, where the
// file system can tell.
func reserve(file interface{ Fd() uintptr }, size int64) error {
	if size == 0 {
		return nil
	}
	err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return err
	}
	return nil
}

// mode is the permission bits of the file that there was, or those asked for.
func (w *writer) mode() fs.FileMode {
	if w.options.Mode != 0 {
		return w.options.Mode.Perm()
	}
	return w.target.old.mode.Perm()
}
