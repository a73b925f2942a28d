package httpapi

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/registry"
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
	if a, d := c.users.agent, c.users.desktop; a.Credential != nil && d.Credential != nil && a.Credential.Uid != d.Credential.Uid {
		if err := supervise.CheckNotReplaceable(a.Home, d); err != nil {
			return fmt.Errorf("the home of user %s, in which agents start: %w", a.Name, err)
		}
	}
	return nil
}

// sessionFolder returns the folder of sessions that name none: the server's working directory or,
// if agents or desktops have a user, who may be able to write there, the home of agents. Agents load
// programs from their folder.
func (c Config) sessionFolder() (string, error) {
	if c.users.agent.Credential == nil && c.users.desktop.Credential == nil {
		return os.Getwd()
	}
	return c.users.agent.HomeDir(c.users.agent.Environ(os.Environ())), nil
}

// checkPrograms returns an error if the user of agents or desktops can put a program into a
// directory in which the server looks for programs, or replace one that the server runs as its own
// user. git runs ssh.
func (c Config) checkPrograms() error {
	check := func(variable, path string) error {
		if !filepath.IsAbs(path) {
			return nil // nothing is looked for there
		}
		if err := supervise.CheckNotReplaceable(path, c.users.agent, c.users.desktop); err != nil {
			return fmt.Errorf("%s: the server runs programs from %s: set it to directories that only root can write to: %w", path, variable, err)
		}
		return nil
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if err := check("PATH", dir); err != nil {
			return err
		}
	}
	for _, dir := range registry.SharedDirs(os.Getenv("XDG_DATA_DIRS")) {
		if err := check("XDG_DATA_DIRS", dir); err != nil {
			return err
		}
	}
	for _, name := range []string{"git", "ssh", "npm", "node", "ffmpeg", "ffprobe", "Xvfb", "openbox", "dbus-daemon", "pulseaudio"} {
		if path, err := supervise.LookPath(name, os.Environ()); err == nil {
			if err := check("PATH", path); err != nil {
				return err
			}
		}
	}
	return nil
}
