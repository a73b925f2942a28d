package fleet

import (
	"os"
	"path/filepath"

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

// refuseReplaceable returns an *InvalidError if one of the users can replace a directory.
// The user could put an old copy in its place, or a link to another directory of root's.
func refuseReplaceable(field, dir string, users []supervise.User) error {
	if err := supervise.CheckNotReplaceable(dir, users...); err != nil {
		return &InvalidError{field, err.Error()}
	}
	return nil
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
