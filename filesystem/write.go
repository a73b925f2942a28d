package filesystem

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// WriteOptions configure Write. The zero value makes or replaces a file atomically, and waits
// for the disk.
type WriteOptions struct {
	// Append adds to the end of the file instead of replacing it. A file that does not
	// exist is made.
	Append bool
	// Exclusive returns fs.ErrExist if the path exists, also as a symbolic link that
	// leads nowhere.
	Exclusive bool
	// IfMatch returns ErrChanged unless there is a file with that ETag. "*" stands for
	// any file. Of two calls with the same ETag only one succeeds.
	IfMatch string
	// Mode is the permission bits of the file. Zero means the bits of the old file, or 0666
	// less the umask for a new file.
	Mode fs.FileMode
	// NoSync does not wait for the disk. The file is still replaced atomically, but a
	// power failure may undo that or, on some file systems, leave the file empty.
	NoSync bool
}

// Write writes the content of r to a file and returns the number of bytes, which is zero after
// an error.
//
// The content is received into a temporary file in the same directory, which then gets the
// name in one step. So readers of the file see either the old or the new content. The old
// content stays if r fails, the context ends, the disk is full or the machine fails.
//
// Missing directories above the file are made, and stay if the write fails. A write to a
// symbolic link writes its target, or makes it if it does not exist. The error is ErrNotFile if
// the path is not a regular file. Permission bits, the access control list, extended user
// attributes and, where the system permits it, owner and group of an old file are kept. Its
// setuid and setgid bits are dropped. Programs that have the old file open, and other names of
// it, keep the old file.
//
// If the new file cannot get the name, the content is received completely, in Config.TempDir if
// necessary, and copied over the old content. Examples are a file that is a mount point, such
// as /etc/hosts in containers, and a directory that is not writable. Only a failure during the
// copy can leave a mixture of both contents. The space on the disk is reserved before the copy.
//
// With Append the content is also received completely before the file changes, and a failed
// append is undone.
//
// The context is checked between reads of r and does not interrupt them.
func (f *FS) Write(ctx context.Context, name string, r io.Reader, options WriteOptions) (n int64, err error) {
	err = f.call("write", name, f.locateEntry, func(p place) error {
		if p.name == "." {
			return mustBeFile(fs.ModeDir)
		}
		t, err := f.resolve(p, options.Exclusive)
		if err != nil {
			return err
		}
		defer t.dir.close()
		w := writer{fs: f, target: t, options: options, alive: f.alive(ctx)}
		if err := w.check(t.old, t.exists); err != nil {
			return err
		}
		if options.Append && t.exists {
			n, err = w.append(r)
		} else {
			n, err = w.replace(r)
		}
		return err
	})
	return n, err
}

// writer is one Write.
type writer struct {
	fs      *FS
	target  target
	options WriteOptions
	alive   aliveFunc
}

// check checks the options against the file that has the name.
func (w *writer) check(old node, exists bool) error {
	switch {
	case exists && w.options.Exclusive:
		return unix.EEXIST
	case exists && !old.isRegular():
		return mustBeFile(old.mode)
	case w.options.IfMatch == "":
		return nil
	case !exists, w.options.IfMatch != "*" && w.options.IfMatch != newEntry("", old).ETag():
		return &Error{Reason: "file was changed meanwhile", Remedy: "read it again", Kind: ErrChanged}
	}
	return nil
}

// replace receives the content into a temporary file and gives it the name.
func (w *writer) replace(r io.Reader) (int64, error) {
	t := w.target
	perm := uint32(0o666)
	if t.exists || w.options.Mode != 0 {
		perm = 0o600 // until the content is complete
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
	w.copyOld(temp.file)
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

// denied reports whether an error is about the directory rather than the file.
func denied(err error) bool {
	return err == unix.EACCES || err == unix.EPERM || err == unix.EROFS
}

// publish gives the content its name, if the options still permit it.
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

// replaceContent is replace for a directory that cannot have a temporary file.
func (w *writer) replaceContent(r io.Reader) (int64, error) {
	// A file that is not writable is an error before the content is read.
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

// overwrite copies content of a known size over the content of the file.
func (w *writer) overwrite(content io.ReadSeeker, size int64) error {
	file, err := w.target.dir.open(w.target.name, unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	old, unlock, err := w.lock(file)
	if err != nil {
		return err
	}
	defer unlock()
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
		_ = file.Chmod(mode) // the system drops setuid, except for root
	}
	if w.options.NoSync {
		return nil
	}
	return syncFile(file)
}

// severalNames returns the error for a file that may also have a name outside of the root.
func severalNames() error {
	return newError(fs.ErrPermission, "", "file has several names (hard links), and its directory allows no replacing it", "")
}

// reserve reserves space for a file, if the file system can.
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

// mode returns the permission bits of the options or of the old file.
func (w *writer) mode() fs.FileMode {
	if w.options.Mode != 0 {
		return w.options.Mode.Perm()
	}
	return w.target.old.mode.Perm()
}
