// Package userhome finds directories that this user can write to, even if the user has no home:
// in containers that run with any user id, or with a read-only file system.
package userhome

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Temporary makes this user's directory in os.TempDir, and returns its path; see [Claim].
func Temporary() (string, error) {
	dir := TemporaryPath()
	return dir, Own(dir, 0o700)
}

// Own is [Claim] for this user.
func Own(dir string, mode fs.FileMode) error {
	return Claim(dir, mode, os.Geteuid(), func(f func() error) error { return f() })
}

var claims sync.Mutex // held by Claim

// Claim makes a directory that belongs to a user, with a mode, or finds it. do calls a function with
// that user's rights. All users can make entries in the parent of dir, which has the sticky bit. Root
// moves away what is another user's: that user could stop programs with it. Without root's rights,
// Claim returns an error then.
func Claim(dir string, mode fs.FileMode, uid int, do func(func() error) error) error {
	claims.Lock()
	defer claims.Unlock()
	if _, err := os.Lstat(dir); err == nil && os.Geteuid() == 0 && !Belongs(dir, uid) {
		if err := os.Rename(dir, dir+"-foreign-"+rand.Text()); err != nil {
			return fmt.Errorf("temporary directory: %w", err)
		}
	}
	err := do(func() error {
		if err := os.Mkdir(dir, mode); err != nil && !Belongs(dir, uid) {
			return err
		}
		return os.Chmod(dir, mode) // the umask may have taken rights away
	})
	switch {
	case Belongs(dir, uid, mode):
		return nil
	case err != nil && !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("temporary directory: %w", err)
	}
	return fmt.Errorf("temporary directory %s: is not user %d's own with mode %#o; remove it or set TMPDIR", dir, uid, mode)
}

// Belongs reports whether dir is a directory of a user, with one of the modes if there are any.
func Belongs(dir string, uid int, modes ...fs.FileMode) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == uid && (len(modes) == 0 || slices.Contains(modes, info.Mode().Perm()))
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
