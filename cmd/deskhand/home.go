package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/userhome"
)

// useHome gives this program and its children a writable home. In a container, HOME
// may be "/" or another user's directory, or the file system may be read-only: then
// useHome makes a temporary home and returns its path, but keeps using a writable
// state directory below HOME.
func useHome() (string, error) {
	home := os.Getenv("HOME")
	if home == "" {
		if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
			home = u.HomeDir
		}
	}
	state := filepath.Join(home, ".local", "state")
	if userhome.Writable(home) {
		// In deskhand's image it exists so that a volume there belongs to the usual
		// user. Another user of that home makes its own.
		if info, err := os.Stat(filepath.Join(state, "deskhand")); err == nil && info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			_ = os.Remove(filepath.Join(state, "deskhand")) // only if it is empty
		}
		return "", nil
	}
	if os.Getenv("XDG_STATE_HOME") == "" && userhome.Writable(filepath.Join(state, "deskhand")) {
		if err := os.Setenv("XDG_STATE_HOME", state); err != nil {
			return "", err
		}
	}
	dir, err := userhome.Temporary()
	if err != nil {
		return "", fmt.Errorf("home %q cannot be written to, and there is no temporary one: %w", home, err)
	}
	dir = filepath.Join(dir, "home")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a temporary home: %w", err)
	}
	return dir, os.Setenv("HOME", dir)
}

const (
	// extraUsers is the database of users that libnss-extrausers reads beside
	// /etc/passwd. In deskhand's image it is a link to a file that any user can make.
	extraUsers = "/var/lib/extrausers/passwd"

	// libnss-extrausers ignores users and groups below firstID, but for usersGroup.
	firstID    = 500
	usersGroup = 100
)

// reserveNames makes the file that extraUsers leads to root's, if this is root.
// Programs such as su trust the file's users and passwords.
func reserveNames() error {
	file, err := os.Readlink(extraUsers)
	if err != nil || os.Geteuid() != 0 {
		return nil //nolint:nilerr // another image, where only root names users
	}
	return emptyNames(file)
}

// emptyNames replaces the file at path with an empty file of this user.
func emptyNames(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	}
	if err == nil {
		err = errors.Join(f.Chmod(0o644), f.Close())
	}
	if err != nil {
		return fmt.Errorf("keep other users from naming users: %w; remove %s", err, path)
	}
	return nil
}

// nameUser gives this user an entry in extraUsers if /etc/passwd has none and
// extraUsers is a link. Programs such as dbus-daemon and Node's os.userInfo fail
// for a user without one.
func nameUser() error {
	uid := os.Geteuid()
	file, err := os.Readlink(extraUsers)
	if err != nil || uid < firstID {
		return nil //nolint:nilerr // another image, where users have names
	}
	if _, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return nil
	}
	gid := os.Getegid()
	if gid < firstID {
		gid = usersGroup
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return fmt.Errorf("give user %d a name: %w", uid, err)
	}
	_, err = fmt.Fprintf(f, "user%[1]d:x:%[1]d:%[2]d::%[3]s:/bin/bash\n", uid, gid, os.Getenv("HOME"))
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("give user %d a name: %w", uid, err)
	}
	return nil
}
