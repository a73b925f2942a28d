package supervise

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// User is whom children run as. The zero value is who runs this program.
type User struct {
	Credential *syscall.Credential // for [Spec.Credential]
	Name, Home string
}

// LookupUser finds a user by name or number; "" and the one who runs this
// program are the zero value. Only root may run children as another user.
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
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return User{}, fmt.Errorf("user %.40q: %w", name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return User{}, fmt.Errorf("user %.40q: %w", name, err)
	}
	c := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	ids, err := u.GroupIds()
	if err != nil {
		return User{}, fmt.Errorf("groups of user %.40q: %w", name, err)
	}
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			c.Groups = append(c.Groups, uint32(n))
		}
	}
	return User{c, u.Username, u.HomeDir}, nil
}

// homes name folders below a user's home.
var homes = []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"}

// Environ is [Environ] for children of the user: their home is the user's.
func (u User) Environ(base []string, set ...string) []string {
	if u.Credential == nil {
		return Environ(base, set...)
	}
	theirs := append([]string{"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name}, homes...)
	return Environ(base, append(theirs, set...)...)
}

// Root tells whether children are root's.
func (u User) Root() bool {
	if u.Credential != nil {
		return u.Credential.Uid == 0
	}
	return os.Geteuid() == 0
}

// Reach tells why a user who is another one cannot read or run a file, or enter
// a folder, as far as owners and modes tell; nil: he can, or it is not there.
// Programs take a file that they cannot reach for one that does not exist.
func (u User) Reach(path string) error {
	if u.Credential == nil || u.Credential.Uid == 0 {
		return nil
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil //nolint:nilerr // who starts it says so
	}
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		may, verb := u.may(at, info, 0o1), "enter"
		if !info.IsDir() {
			may, verb = may || u.may(at, info, 0o4), "read"
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

// CanStart is [User.Reach] of a program, and of the script that an interpreter
// runs, which is its first argument.
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

// CanReplace returns a directory above path whose entries the user can rename, or "" if
// there is none. Links on the way to path are followed. It is "" for root, and for a user
// without credentials.
func (u User) CanReplace(path string) (dir string) {
	if u.Credential == nil || u.Credential.Uid == 0 {
		return ""
	}
	for ; path != "/" && path != "."; path = filepath.Dir(path) {
		real, err := filepath.EvalSymlinks(path)
		if err == nil && real != path {
			if dir := u.CanReplace(real); dir != "" {
				return dir
			}
		}
		above := filepath.Dir(path)
		if info, err := os.Stat(above); err == nil && u.canRename(info) { // else it does not exist yet
			return above
		}
	}
	return ""
}

// CheckNotReplaceable returns an error if one of the users can replace the file or directory
// at path; see [User.CanReplace]. A path that such a user replaced could lead to other files.
func CheckNotReplaceable(path string, users ...User) error {
	for _, u := range users {
		if dir := u.CanReplace(path); dir != "" {
			return fmt.Errorf("%s can be changed by user %.40q, whose programs are not trusted; choose a directory that this user cannot replace", dir, u.Name)
		}
	}
	return nil
}

// canRename reports whether the user may rename the entries of a directory that belong
// to others.
func (u User) canRename(dir os.FileInfo) bool {
	c := u.Credential
	st, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	if st.Uid == c.Uid {
		return true
	}
	need := os.FileMode(0o002)
	if st.Gid == c.Gid || slices.Contains(c.Groups, st.Gid) {
		need = 0o020
	}
	return dir.Mode()&os.ModeSticky == 0 && dir.Mode()&need != 0
}

// may tells whether the mode of a file lets the user do what need is the bit
// of. A list of further users (acl(5)) is taken for a yes.
func (u User) may(path string, info fs.FileInfo, need fs.FileMode) bool {
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
