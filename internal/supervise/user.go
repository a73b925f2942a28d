package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/userhome"
)

// User is a user that children run as. The zero value is this program's user.
type User struct {
	Credential *syscall.Credential // for [Spec.Credential]
	Name, Home string
}

// LookupUser returns a user by name or id. It returns the zero value for "" and for this
// program's user. It fails if there is no such user, or if the user is another one and
// this program is not root.
func LookupUser(name string) (User, error) {
	if name == "" {
		return User{}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return User{}, fmt.Errorf("user %.40q does not exist here", name)
		}
	}
	if u.Uid == strconv.Itoa(os.Geteuid()) {
		return User{}, nil
	}
	if os.Geteuid() != 0 {
		return User{}, fmt.Errorf("only root may run programs as another user, here %.40q", name)
	}
	c, err := CredentialOf(u)
	if err != nil {
		return User{}, fmt.Errorf("user %.40q: %w", name, err)
	}
	return User{c, u.Username, u.HomeDir}, nil
}

// CredentialOf returns the ids of a user and its groups.
func CredentialOf(u *user.User) (*syscall.Credential, error) {
	groups, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	ids := make([]uint32, 0, len(groups)+2)
	for _, text := range append([]string{u.Uid, u.Gid}, groups...) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, err
		}
		ids = append(ids, uint32(id))
	}
	return &syscall.Credential{Uid: ids[0], Gid: ids[1], Groups: ids[2:]}, nil
}

// homes are variables that name folders below a user's home.
var homes = []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"}

// Environ is [Environ] for children that run as the user: they get the user's home.
func (u User) Environ(base []string, set ...string) []string {
	if u.Credential == nil {
		return Environ(base, set...)
	}
	theirs := append([]string{"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name}, homes...)
	return Environ(base, append(theirs, set...)...)
}

// HomeDir returns the directory that HOME names in an environment, or "/" if HOME is not an
// absolute path of a directory that the user may enter.
func (u User) HomeDir(env []string) string {
	home, _ := lookup(env, "HOME")
	err := u.Do(func() error {
		_, err := os.Stat(home + "/.") // fails if the user may not enter it
		return err
	})
	if err != nil || !filepath.IsAbs(home) {
		return "/"
	}
	return home
}

// TempVariable makes a directory for temporary files of the user's programs, and returns the variable
// TMPDIR for them. The directory is in os.TempDir, or in /tmp if the user may not make files in
// os.TempDir. Only the user and root can enter it. Programs execute what they find under known names
// beside their temporary files, such as compiled code. If os.TempDir is read-only or missing,
// TempVariable returns no variable.
func (u User) TempVariable() ([]string, error) {
	uid := os.Geteuid()
	if c := u.Credential; c != nil {
		uid = int(c.Uid)
	}
	var dir string
	var err error
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		dir = filepath.Join(parent, fmt.Sprintf("deskhand-%d-programs", uid))
		if err = userhome.Claim(dir, 0o700, uid, u.Do); !errors.Is(err, fs.ErrPermission) {
			break
		}
	}
	if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return []string{"TMPDIR=" + dir}, err
}

// Root reports whether the user is root.
func (u User) Root() bool {
	if u.Credential != nil {
		return u.Credential.Uid == 0
	}
	return os.Geteuid() == 0
}

// Reach returns an error that wraps fs.ErrPermission if the user cannot read a file or
// enter a folder, by owners and modes. It returns nil for root, for this program's user,
// and if the file does not exist. Programs report a file that they cannot reach as a file
// that does not exist.
func (u User) Reach(path string) error {
	if u.Credential == nil || u.Credential.Uid == 0 {
		return nil
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil //nolint:nilerr // starting it fails with this error
	}
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		may, verb := u.permitted(at, info, 0o1), "enter"
		if !info.IsDir() {
			may, verb = may || u.permitted(at, info, 0o4), "read"
		}
		if !may {
			err := fmt.Errorf("user %.40q may not %s %s (%w)", u.Name, verb, at, fs.ErrPermission)
			if at != path {
				err = fmt.Errorf("%w, so not use %s", err, path)
			}
			return err
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// CanStart is [User.Reach] for a program and for its first argument, which may be the
// script of an interpreter.
func (u User) CanStart(path string, args []string) error {
	for _, file := range append([]string{path}, args[:min(1, len(args))]...) {
		if !filepath.IsAbs(file) {
			continue
		}
		if err := u.Reach(file); err != nil {
			return err
		}
	}
	return nil
}

// mostLinks is the number of links that the kernel follows in one path.
const mostLinks = 40

// CanReplace returns the file or directory that path leads to if the user can write to it, or a directory
// on the way in which the user can replace the next entry, or make one that is missing. It follows links as
// the kernel does, also those that lead to nothing yet. It returns "" if there is none, for root, and for a
// user without credentials.
func (u User) CanReplace(path string) (at string) {
	if u.Credential == nil || u.Credential.Uid == 0 {
		return ""
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "."
	}
	at = "/" // has no links
	links := 0
	for left := strings.Split(path, "/"); len(left) > 0; {
		name := left[0]
		left = left[1:]
		above, next := at, filepath.Join(at, name)
		if next == above {
			continue
		}
		info, err := os.Lstat(above)
		entry, missing := os.Lstat(next)
		if name != ".." && err == nil && u.canWrite(info) && // an error means that it does not exist yet
			(info.Mode()&os.ModeSticky == 0 || missing != nil || u.owns(entry) || u.owns(info)) {
			return above
		}
		if at = next; missing != nil || entry.Mode()&os.ModeSymlink == 0 {
			continue
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > mostLinks {
			return next
		}
		if at = above; filepath.IsAbs(target) {
			at = "/"
		}
		left = append(strings.Split(target, "/"), left...)
	}
	if info, err := os.Lstat(at); err == nil && u.canWrite(info) {
		return at
	}
	return ""
}

// CheckNotReplaceable returns an error if one of the users can write to or replace the file or directory
// at path; see [User.CanReplace]. A path that such a user replaced could lead to other files.
func CheckNotReplaceable(path string, users ...User) error {
	for _, u := range users {
		if at := u.CanReplace(path); at != "" {
			return fmt.Errorf("%s can be changed by user %.40q, whose programs are not trusted; choose a directory that this user can neither write to nor replace", at, u.Name)
		}
	}
	return nil
}

// owns reports whether a file belongs to the user.
func (u User) owns(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == u.Credential.Uid
}

// canWrite reports whether the user may write to a file, or make entries in a directory. The owner can
// change the mode.
func (u User) canWrite(info os.FileInfo) bool {
	c := u.Credential
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	need := os.FileMode(0o002)
	if st.Gid == c.Gid || slices.Contains(c.Groups, st.Gid) {
		need = 0o020
	}
	return st.Uid == c.Uid || info.Mode()&need != 0
}

// permitted reports whether the mode of a file gives the user the right of the bit need. A
// file with an access control list (acl(5)) is assumed to give it.
func (u User) permitted(path string, info fs.FileInfo, need fs.FileMode) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	switch c := u.Credential; {
	case owner.Uid == c.Uid:
		need <<= 6
	case owner.Gid == c.Gid || slices.Contains(c.Groups, owner.Gid):
		need <<= 3
	}
	if info.Mode()&need != 0 {
		return true
	}
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}
