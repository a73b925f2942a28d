package httpapi

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/userhome"
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
		return &agents.InvalidError{Field: "desktop", Reason: why}
	}
	return nil
}

// checkDatabase returns an error if the user of agents or desktops can replace a file of the
// database of the event log.
func (c Config) checkDatabase() error {
	for _, path := range eventlog.Files(c.EventLog.DSN) {
		if err := supervise.CheckNotReplaceable(path, c.users.agent, c.users.desktop); err != nil {
			return fmt.Errorf("config: EventLog.DSN: %w", err)
		}
	}
	return nil
}

// checkHome returns an error if the user of agents or desktops can replace a file that decides
// what git and npm do, which run as the server's user, or the installed agents.
func (c Config) checkHome() error {
	home := userhome.Dir()
	if home == "" {
		return nil
	}
	config := cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
	data := cmp.Or(os.Getenv("XDG_DATA_HOME"), filepath.Join(home, ".local", "share"))
	for _, path := range []string{
		filepath.Join(home, ".gitconfig"), filepath.Join(config, "git", "config"), filepath.Join(data, "deskhand", "agents", "codex"),
	} {
		if err := supervise.CheckNotReplaceable(path, c.users.agent, c.users.desktop); err != nil {
			return fmt.Errorf("the server's home (HOME, XDG_CONFIG_HOME, XDG_DATA_HOME): %w", err)
		}
	}
	return nil
}

// checkPrograms returns an error if the user of agents or desktops can replace a program that the
// server runs as its own user, or put another one before it in PATH. git runs ssh.
func (c Config) checkPrograms() error {
	for _, name := range []string{"git", "ssh", "npm", "node", "ffmpeg", "ffprobe"} {
		found, _ := supervise.LookPath(name, os.Environ()) // if it is missing, the user could add it
		for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), filepath.Dir(found)) {
			path := filepath.Join(dir, name)
			if !filepath.IsAbs(path) {
				continue
			}
			if err := supervise.CheckNotReplaceable(path, c.users.agent, c.users.desktop); err != nil {
				return fmt.Errorf("%s: the server runs %s from PATH: set PATH to directories that only root can write to: %w", path, name, err)
			}
			if path == found {
				break
			}
		}
	}
	return nil
}
