package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/internal/supervise"
)

// users are the users that programs of agents and desktops run as.
type users struct {
	agent, desktop supervise.User
}

// lookUpUsers finds the users that a Config names. It returns an error if agents
// would get a desktop that runs with more rights than they have.
func (c Config) lookUpUsers() (u users, err error) {
	if u.desktop, err = supervise.LookupUser(c.DesktopUser); err != nil {
		return u, fmt.Errorf("config: DesktopUser: %w", err)
	}
	if u.agent, err = supervise.LookupUser(c.AgentHost.RunAs); err != nil {
		return u, fmt.Errorf("config: AgentHost.RunAs: %w", err)
	}
	if c.AgentHost.Desktop == "" {
		return u, nil
	}
	if why := u.refusal(); why != "" {
		return u, fmt.Errorf("config: AgentHost.Desktop: desktop %s: %s", c.AgentHost.Desktop, why)
	}
	return u, nil
}

// refusal returns why agents must not have a desktop as tools, or "" if they may.
// An agent can type into each program of its desktop, and start others there.
func (u users) refusal() string {
	if u.agent.Credential == nil || !u.desktop.Root() {
		return ""
	}
	return fmt.Sprintf("cannot be given to agents: they run as user %s, but the programs of desktops run as root, which the agents would control; "+
		"start the server with --desktop-user %[1]s (Config.DesktopUser)", u.agent.Name)
}

// mayMount returns an error if agents must not have a desktop.
func (u users) mayMount() error {
	if why := u.refusal(); why != "" {
		return &agents.InvalidError{Field: "desktop", Problem: why}
	}
	return nil
}

// mayNotReplace returns an error if the user of agents or desktops can rename the state
// directory, or a directory above it. The user could put an old copy in its place, with
// tokens that were revoked since, or a link to another directory of root's.
func (u users) mayNotReplace(dir string) error {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && real != dir {
			if err := u.mayNotReplace(real); err != nil {
				return err
			}
		}
		above := filepath.Dir(dir)
		info, err := os.Stat(above)
		if err != nil {
			continue // it does not exist yet
		}
		for _, user := range []supervise.User{u.agent, u.desktop} {
			if canRename(user, info) {
				return fmt.Errorf("%s can be changed by user %.40q, whose programs are not trusted; choose a directory that this user cannot replace", above, user.Name)
			}
		}
	}
	return nil
}

// canRename reports whether a user who is not root may rename the entries of a
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

// homeOf returns the home of a desktop whose programs run as another user: a folder
// in that user's home. It returns "", for a temporary home, if the user has no home.
func (u users) homeOf(id string) string {
	home := filepath.Join(u.desktop.Home, ".local", "state", "deskhand", othersName, id, "home")
	err := u.desktop.Do(func() error {
		if _, err := os.Stat(u.desktop.Home); err != nil {
			return err
		}
		return os.MkdirAll(home, 0o700)
	})
	if err != nil {
		return ""
	}
	return home
}
