package folder

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openParent opens the directory of a name, and returns the last component of the
// name. With create, it makes missing directories.
func openParent(dir, name string, create bool) (d *os.Root, base string, err error) {
	if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." {
		return nil, "", &fs.PathError{Op: "open", Path: filepath.Join(dir, name), Err: ErrName}
	}
	parent, base := path.Split(name)
	d, err = openBelow(dir, path.Clean(parent), create)
	return d, base, err
}

// openBelow opens a directory below dir; "." is dir itself.
func openBelow(dir, name string, create bool) (*os.Root, error) {
	d, err := openDir(dir)
	if err != nil || name == "." {
		return d, err
	}
	if !filepath.IsLocal(name) {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: filepath.Join(dir, name), Err: ErrName}, d.Close())
	}
	at := dir
	for component := range strings.SplitSeq(name, "/") {
		at = filepath.Join(at, component)
		next, err := enter(d, component, create)
		if err = errors.Join(withPath(at, err), d.Close()); err != nil {
			if next != nil {
				_ = next.Close()
			}
			return nil, err
		}
		d = next
	}
	return d, nil
}

// openDir opens a directory that the caller trusts. It follows links, except the
// magic links of /proc.
func openDir(dir string) (*os.Root, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, how)
	for err == unix.EINTR || err == unix.EAGAIN {
		fd, err = unix.Openat2(unix.AT_FDCWD, dir, how)
	}
	switch err {
	case nil:
	case unix.ENOSYS, unix.EPERM: // before Linux 5.6, or the call is filtered
		return os.OpenRoot(dir)
	default:
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	d, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd))
	return d, withPath(dir, err)
}

// enter opens a directory of d that is not a link. An os.Root never leads out of itself, but it
// follows links inside of it. Comparing the opened directory with the result of Lstat shows
// that no link was followed.
func enter(d *os.Root, name string, create bool) (*os.Root, error) {
	if create {
		if err := d.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	for range 10 { // another program may exchange the directory meanwhile
		before, err := d.Lstat(name)
		switch {
		case err != nil:
			return nil, err
		case before.Mode()&fs.ModeSymlink != 0:
			return nil, ErrLink
		case !before.IsDir():
			return nil, syscall.ENOTDIR
		}
		next, err := d.OpenRoot(name)
		if err != nil {
			if errno, ok := errors.AsType[syscall.Errno](err); ok && errno != syscall.ELOOP && errno != syscall.ENOTDIR {
				return nil, err
			}
			continue // a link or a file is there now
		}
		opened, err := next.Stat(".")
		if err == nil && os.SameFile(before, opened) {
			return next, nil
		}
		if err := errors.Join(err, next.Close()); err != nil {
			return nil, err
		}
	}
	return nil, ErrLink
}

// openFile opens a regular file of a directory. It does not block on a FIFO.
func openFile(d *os.Root, name string) (*os.File, fs.FileInfo, error) {
	self, err := d.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer self.Close()
	// d.OpenFile would follow links that stay inside of d.
	fd, err := unix.Openat(int(self.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, nil, ErrLink
	case errors.Is(err, unix.ENXIO): // a socket
		return nil, nil, ErrNotRegular
	case err != nil:
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// readFile returns the content of a regular file of a directory.
func readFile(d *os.Root, name string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := openFile(d, name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, nil, err
	}
	return text, info, nil
}

// withPath returns a PathError with the whole path for an error that names one of its
// components.
func withPath(at string, err error) error {
	if err == nil {
		return nil
	}
	op := "open"
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		op, err = strings.TrimSuffix(p.Op, "at"), p.Err
	case errors.As(err, &l):
		op, err = strings.TrimSuffix(l.Op, "at"), l.Err
	}
	return &fs.PathError{Op: op, Path: at, Err: err}
}

func read(dir, name string, limit int64) ([]byte, error) {
	d, base, err := openParent(dir, name, false)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	text, _, err := readFile(d, base, limit)
	return text, withPath(filepath.Join(dir, name), err)
}
