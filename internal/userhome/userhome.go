// Package userhome finds directories that this user can write to, even if the user has no home:
// in containers that run with any user id, or with a read-only file system.
package userhome

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Temporary makes this user's directory in os.TempDir, and returns its path. Every user can make
// entries there, so it returns an error if the directory does not belong to this user with mode
// 0700.
func Temporary() (string, error) {
	dir := TemporaryPath()
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm() != 0o700 || int(owner.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not this user's own with mode 0700; remove it, or set HOME, XDG_STATE_HOME or TMPDIR", dir)
	}
	return dir, nil
}

// TemporaryPath returns the path of the directory that Temporary makes.
func TemporaryPath() string {
	return filepath.Join(os.TempDir(), "deskhand-"+strconv.Itoa(os.Geteuid()))
}

// Writable reports whether this user can write to the directory, or make it if
// it does not exist.
func Writable(dir string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	for at := dir; ; at = filepath.Dir(at) {
		err := unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		if !errors.Is(err, unix.ENOENT) || at == filepath.Dir(at) {
			return err == nil
		}
	}
}

// Dir returns $HOME or, if that is not set, the home that the user database names and
// this user can write to. It returns "" if there is neither.
func Dir() string {
	if home, err := os.UserHomeDir(); err == nil {
		return home
	}
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) || unix.Access(u.HomeDir, unix.W_OK|unix.X_OK) != nil {
		return ""
	}
	return u.HomeDir
}

// Expand replaces a leading ~ of a path by Dir. It returns the path unchanged if the
// user has no home.
func Expand(path string) string {
	if path != "~" && !strings.HasPrefix(path, "~/") {
		return path
	}
	home := Dir()
	if home == "" {
		return path
	}
	return home + path[1:]
}
