package filesystem

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// copyTree copies an entry, with everything below it, to a new name. It returns ErrTooLarge if
// there are more levels below it than given. After an error the caller removes the copy.
func copyTree(from folder, name string, to folder, newName string, levels int, alive aliveFunc) error {
	if err := alive(); err != nil {
		return err
	}
	if levels < 0 {
		problem := "more than " + strconv.Itoa(maxLevels) + " levels of directories cannot be moved to another file system"
		return withPath(from.child(name), tooLarge(problem))
	}
	n, err := from.stat(name)
	if err != nil {
		return withPath(from.child(name), err)
	}
	if from.isMountPoint(name) {
		return &Error{
			Path: from.child(name), Reason: "a mount point cannot be moved to another file system", Kind: ErrBusy,
			Err: unix.EBUSY,
		}
	}
	switch n.mode.Type() {
	case 0:
		err = copyFile(from, name, to, newName, alive)
	case fs.ModeDir:
		err = copyFolder(from, name, to, newName, levels, alive)
	case fs.ModeSymlink:
		err = copyLink(from, name, to, newName, n)
	default:
		err = copySpecial(to, newName, n)
	}
	return withPath(from.child(name), err)
}

func copyFile(from folder, name string, to folder, newName string, alive aliveFunc) error {
	source, err := from.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer source.Close()
	n, err := nodeOfFile(source)
	if err == nil {
		err = mustBeFile(n.mode)
	}
	if err != nil {
		return err
	}
	file, err := to.open(newName, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	if err != nil {
		return withPath(to.path, err)
	}
	defer file.Close()
	if err := copyData(file, source, n.size, alive); err != nil {
		return err
	}
	// Data that was written during the copy would be lost.
	if now, err := nodeOfFile(source); err != nil || now.size != n.size || !now.modified.Equal(n.modified) {
		return &Error{Path: from.child(name), Reason: "file was changed while it was copied", Remedy: "try again", Kind: ErrChanged}
	}
	if err := copyMetadata(file, source, n); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return setTimes(to, newName, n)
}

// copyData copies size bytes, with the holes of the source.
func copyData(file, source *os.File, size int64, alive aliveFunc) error {
	for end := int64(0); end < size; {
		start, err := source.Seek(end, unix.SEEK_DATA)
		switch {
		case errors.Is(err, unix.ENXIO): // the rest is a hole
			return file.Truncate(size)
		case err != nil: // this file system does not support SEEK_DATA
			start, end = end, size
		default:
			if end, err = source.Seek(start, unix.SEEK_HOLE); err != nil {
				return err
			}
		}
		if _, err := source.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := file.Seek(start, io.SeekStart); err != nil {
			return err
		}
		n, err := receive(file, io.LimitReader(source, end-start), true, alive)
		if err != nil {
			return err
		}
		if n < end-start {
			break // the source was shortened
		}
	}
	return file.Truncate(size)
}

func copyFolder(from folder, name string, to folder, newName string, levels int, alive aliveFunc) error {
	source, err := from.folder(name, folderRead)
	if err != nil {
		return err
	}
	defer source.close()
	n, err := source.self()
	if err != nil {
		return err
	}
	if err := to.mkdir(newName, 0o700); err != nil {
		return withPath(to.path, err)
	}
	dir, err := to.ownFolder(newName)
	if err != nil {
		return withPath(to.path, err)
	}
	defer dir.close()
	_ = unix.Flock(dir.fd, unix.LOCK_EX|unix.LOCK_NB) // see sweep
	err = eachName(source, func(name string) error { return copyTree(source, name, dir, name, levels-1, alive) })
	if err != nil {
		return err
	}
	if err := copyMetadata(dir.file, source.file, n); err != nil {
		return err
	}
	return setTimes(to, newName, n)
}

func copyLink(from folder, name string, to folder, newName string, n node) error {
	target, err := from.readlink(name)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(target, to.fd, newName); err != nil {
		return withPath(to.path, err)
	}
	giveOwner(to, newName, n)
	return setTimes(to, newName, n)
}

// copySpecial copies a FIFO, a socket or a device.
func copySpecial(to folder, newName string, n node) error {
	if err := unix.Mknodat(to.fd, newName, n.raw&(unix.S_IFMT|0o777), int(n.number)); err != nil {
		return withPath(to.path, err)
	}
	giveOwner(to, newName, n)
	return setTimes(to, newName, n)
}

// giveOwner gives a link or special file that was just made the owner of n, if this user may do that.
// The owner of the directory may have put another file in its place. giveOwner leaves files of another
// kind or owner, and files with more names.
func giveOwner(to folder, newName string, n node) {
	file, err := to.open(newName, unix.O_PATH, 0)
	if err != nil {
		return
	}
	defer file.Close()
	made, err := nodeOfFile(file)
	same := made.mode.Type() == n.mode.Type() && made.number == n.number
	if err == nil && same && made.links == 1 && int(made.uid) == unix.Geteuid() {
		_ = unix.Fchownat(int(file.Fd()), "", int(n.uid), int(n.gid), unix.AT_EMPTY_PATH)
	}
}

// copyMetadata copies attributes, owner and mode.
func copyMetadata(file, source *os.File, n node) error {
	copyAttributes(file, source, func(string) bool { return true })
	mode := n.mode.Perm() | n.mode&fs.ModeSticky
	if file.Chown(int(n.uid), int(n.gid)) == nil {
		mode |= n.mode & (fs.ModeSetuid | fs.ModeSetgid)
	}
	return file.Chmod(mode)
}

// setTimes sets the times of an entry, without following a link.
func setTimes(dir folder, name string, n node) error {
	times := make([]unix.Timespec, 2)
	var err error
	if times[0], err = unix.TimeToTimespec(n.accessed); err != nil {
		return err
	}
	if times[1], err = unix.TimeToTimespec(n.modified); err != nil {
		return err
	}
	return unix.UtimesNanoAt(dir.fd, name, times, unix.AT_SYMLINK_NOFOLLOW)
}

func syncTree(dir folder, name string, n node) error {
	if n.mode.Type()&^fs.ModeDir != 0 {
		return nil
	}
	file, err := dir.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		// If it is not readable, the whole file system is synced.
		if file, err = dir.open(".", folderRead, 0); err != nil {
			return nil
		}
		n.mode = fs.ModeDir
	}
	defer file.Close()
	if n.isDir() {
		return unix.Syncfs(int(file.Fd()))
	}
	return syncFile(file)
}
