package desktop

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// socketDir is the directory of X servers' sockets, which all X clients use.
const socketDir = "/tmp/.X11-unix"

// secureSockets makes the directory of sockets if it does not exist, and gives it to root
// with the sticky bit. Another owner could replace a socket and get the display's cookie
// from programs that connect. It does nothing if this program is not root.
func secureSockets(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	var st unix.Stat_t
	const mode = 0o1777
	switch err := unix.Fstat(fd, &st); {
	case err != nil:
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	case st.Uid == 0 && st.Mode&0o7777 == mode:
		return nil
	}
	return errors.Join(d.Chown(0, 0), d.Chmod(os.ModeSticky|0o777))
}
