package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/deskhand/deskhand/internal/supervise"
)

// lookUpUsers returns Config.RunAs, and all users whose programs are not trusted.
func (c Config) lookUpUsers() (runAs supervise.User, untrusted []supervise.User, err error) {
	if runAs, err = supervise.LookupUser(c.RunAs); err != nil {
		return runAs, nil, &InvalidError{"RunAs", err.Error()}
	}
	untrusted = []supervise.User{runAs}
	for _, name := range c.Untrusted {
		u, err := supervise.LookupUser(name)
		if err != nil {
			return runAs, nil, &InvalidError{"Untrusted", err.Error()}
		}
		untrusted = append(untrusted, u)
	}
	return runAs, untrusted, nil
}

// refuseReplaceable returns an error if one of the users can rename the state
// directory, or a directory above it. The user could put an old copy in its place, or a
// link to another directory of root's.
func refuseReplaceable(dir string, users []supervise.User) error {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && real != dir {
			if err := refuseReplaceable(real, users); err != nil {
				return err
			}
		}
		above := filepath.Dir(dir)
		info, err := os.Stat(above)
		if err != nil {
			continue // it does not exist yet
		}
		for _, user := range users {
			if canRename(user, info) {
				return &InvalidError{"StateDir", fmt.Sprintf(
					"%s can be changed by user %.40q, whose programs are not trusted; choose a directory that this user cannot replace", above, user.Name)}
			}
		}
	}
	return nil
}

// canRename reports whether a user other than root may rename the entries of a
// directory that belong to others.
func canRename(user supervise.User, dir os.FileInfo) bool {
	c := user.Credential
	st, ok := dir.Sys().(*syscall.Stat_t)
	if !ok || c == nil || c.Uid == 0 {
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

// homeOf returns the home of a desktop whose programs run as another user: a folder in
// that user's home. It returns "", for a temporary home, if the user has no home.
func homeOf(u supervise.User, id string) string {
	home := filepath.Join(u.Home, ".local", "state", "deskhand", desktopsName, id, "home")
	err := u.Do(func() error {
		if _, err := os.Stat(u.Home); err != nil {
			return err
		}
		return os.MkdirAll(home, 0o700)
	})
	if err != nil {
		return ""
	}
	return home
}
