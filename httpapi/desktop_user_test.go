package httpapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestAgentsGetNoDesktopOfRoot: an agent that runs as another user could have
// root through the programs of a desktop that root runs.
func TestAgentsGetNoDesktopOfRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may run agents as another user")
	}
	for user, refused := range map[string]bool{"": true, "root": true, "www-data": false} {
		s, err := New(Config{StateDir: t.TempDir(), DesktopUser: user, AgentHost: agents.Config{RunAs: "www-data", Desktop: "main"}})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "start the server with --desktop-user www-data") {
			t.Errorf("desktop user %q: %v", user, err)
		}
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	s := serve(t, Config{AgentHost: agents.Config{RunAs: "www-data", Launch: func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{}, errors.New("an agent is started")
	}}})
	body := fmt.Sprintf(`{"agent":"any","directory":%q,"desktop":"main"}`, t.TempDir())
	got := s.post(t, "/v1/sessions/new", body).want(t, 400).json(t)
	if text := fmt.Sprint(got["detail"]); !strings.Contains(text, "--desktop-user www-data") {
		t.Errorf("a session with a desktop: %v", got)
	}
	if got := s.get(t, "/v1/desktop/status").want(t, 200).json(t)["state"]; got != "inactive" {
		t.Errorf("the desktop is %v", got)
	}
}

// TestStateDirOfUser has what the server writes where programs of agents or desktops could
// replace it.
func TestStateDirOfUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may run agents as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	for name, made := range map[string]struct {
		owner   uint32
		mode    os.FileMode
		refused bool // a directory that exists
		missing bool // whether a directory that does not exist is refused
	}{
		"root's":      {0, 0o755, false, false},
		"the user's":  {u.Credential.Uid, 0o755, true, true},
		"everybody's": {0, 0o777, true, true},
		"as /tmp":     {0, 0o777 | os.ModeSticky, false, true},
	} {
		above := t.TempDir()
		if err := errors.Join(os.Chown(above, int(made.owner), 0), os.Chmod(above, made.mode)); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(filepath.Join(above, "below"), link); err != nil {
			t.Fatal(err)
		}
		below := filepath.Join(above, "below")
		if err := os.Mkdir(below, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(above, "events.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		missing := filepath.Join(above, "a", "state")
		for _, dir := range []string{missing, filepath.Join(link, "a"), link, above} {
			refused := made.refused || (dir == missing || dir == above) && made.missing
			for where, cfg := range map[string]Config{
				"desktop user": {DesktopUser: "www-data", StateDir: dir},
				"agent user":   {AgentHost: agents.Config{RunAs: "www-data"}, StateDir: dir},
				"recordings":   {DesktopUser: "www-data", StateDir: t.TempDir(), RecordingsDir: dir},
				"database":     {DesktopUser: "www-data", StateDir: t.TempDir(), EventLog: eventlog.Config{DSN: "sqlite:" + filepath.Join(dir, "events.db")}},
			} {
				s, err := New(cfg)
				if (err != nil) != refused || refused && !strings.Contains(err.Error(), `can be changed by user "www-data"`) {
					t.Errorf("%s, %s, %s: %v", name, where, dir, err)
				}
				if err == nil {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		}
		if made.missing {
			bad := serve(t, Config{DesktopUser: "www-data"}).post(t, "/v1/desktop/start", fmt.Sprintf(`{"stateDir":%q}`, above)).want(t, 400)
			if !strings.Contains(string(bad.body), "can be changed by user") {
				t.Errorf("%s: a desktop's stateDir: %s", name, bad.body)
			}
		}
	}
}

// TestProgramsOfUser: the programs of agents and desktops cannot change programs that the server
// runs as root, nor put others before them.
func TestProgramsOfUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may run agents as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	uid := int(u.Credential.Uid)
	// dir makes a directory with programs. It belongs to a user.
	dir := func(owner int, programs ...string) string {
		dir := t.TempDir()
		for _, name := range programs {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(dir, owner, 0); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	files := dir(0, "node", "ffprobe")
	if err := os.Chown(filepath.Join(files, "ffprobe"), uid, 0); err != nil {
		t.Fatal(err)
	}
	link, theirs := dir(0), dir(uid, "npm")
	if err := os.Symlink(filepath.Join(theirs, "npm"), filepath.Join(link, "npm")); err != nil {
		t.Fatal(err)
	}
	display := dir(0)
	if err := os.Symlink(filepath.Join(theirs, "npm"), filepath.Join(display, "Xvfb")); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ path, data, refused string }{ // refused is a part of the error; empty: none
		"root's":                   {dir(0, "git"), "", ""},
		"the user's after root's":  {dir(0, "git") + ":" + theirs, "", theirs + ": the server runs programs from PATH"},
		"the user's before root's": {theirs + ":" + dir(0, "git"), "", theirs + ": "},
		"a file of the user":       {files, "", files + "/ffprobe: "},
		"a link to the user's":     {link, "", link + "/npm: "},
		"a display of the user's":  {display, "", display + "/Xvfb: "},
		"directories not there":    {filepath.Join(dir(0), "none") + "::bin:" + dir(0), "", ""},
		"the user's not there":     {filepath.Join(dir(uid), "none"), "", "/none: "},
		"agents for all users":     {dir(0), "data:" + dir(0), ""},
		"agents of the user":       {dir(0), theirs, theirs + "/deskhand/agents: the server runs programs from XDG_DATA_DIRS"},
	} {
		t.Setenv("PATH", c.path)
		t.Setenv("XDG_DATA_DIRS", c.data)
		for flag, cfg := range map[string]Config{"agent user": {AgentHost: agents.Config{RunAs: "www-data"}}, "desktop user": {DesktopUser: "www-data"}, "": {}} {
			cfg.StateDir = t.TempDir()
			s, err := New(cfg)
			if err == nil {
				err = s.Close()
			}
			switch {
			case c.refused == "" || flag == "":
				if err != nil {
					t.Errorf("%s, %s: %v", what, flag, err)
				}
			case err == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "directories that only root can write to"):
				t.Errorf("%s, %s: %v, want an error about %s", what, flag, err, c.refused)
			}
		}
	}
}

// TestAgentOfUser: an agent that the user of desktops can replace does not run as another user.
func TestAgentOfUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may run desktops as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	above := t.TempDir()
	dir, link, ran := filepath.Join(above, "theirs"), filepath.Join(above, "link"), filepath.Join(above, "ran")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Symlink(filepath.Join(dir, "agent"), link)); err != nil { //nolint:gosec // as a home
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "agent"), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if err := os.Chown(dir, int(u.Credential.Uid), 0); err != nil {
		t.Fatal(err)
	}
	known := registry.Config{Custom: []registry.Custom{
		{ID: "linked", Command: []string{link}},
		{ID: "script", Command: []string{"/bin/sh", link}},
	}}
	for who, test := range map[string]struct {
		cfg     Config
		refused bool
	}{
		"agents of root":     {Config{DesktopUser: "www-data"}, true},
		"agents of the user": {Config{DesktopUser: "www-data", AgentHost: agents.Config{RunAs: "www-data"}}, false},
		"one user":           {Config{}, false},
	} {
		test.cfg.Agents = known
		s := serve(t, test.cfg)
		for _, id := range []string{"linked", "script"} {
			made := s.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":%q,"directory":%q}`, id, above)).want(t, 200)
			asked := s.get(t, "/v1/agents/"+id+"?config=true&no_cache=true").want(t, 200)
			for _, got := range []answer{made, asked} {
				if refused := strings.Contains(string(got.body), "theirs can be changed by user"); refused != test.refused {
					t.Errorf("%s, %s: %s", who, id, got.body)
				}
			}
		}
		if _, err := os.Stat(ran); test.refused && err == nil {
			t.Errorf("%s: the agent was started", who)
		}
		_ = os.Remove(ran)
	}
}

// TestSessionFolder: sessions that name no folder do not begin in the server's working directory if
// programs of desktops may be able to write there.
func TestSessionFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(t.TempDir())
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for want, users := range map[string]users{here: {}, home: {desktop: u}, u.Home: {agent: u}} {
		if got, err := (Config{users: users}).sessionFolder(); err != nil || got != want {
			t.Errorf("%+v: %q, %v, want %q", users, got, err, want)
		}
	}
}

// TestHomeOfUser: the programs of agents and desktops cannot change what git and npm, which
// run as root, read in the server's home, nor the installed agents.
func TestHomeOfUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may run agents as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	own, users := t.TempDir(), t.TempDir()
	if err := os.Chown(users, int(u.Credential.Uid), 0); err != nil {
		t.Fatal(err)
	}
	names := []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}
	for _, changed := range append(names, "") {
		for _, name := range names {
			t.Setenv(name, own)
		}
		if changed != "" {
			t.Setenv(changed, users)
		}
		for flag, cfg := range map[string]Config{"agent user": {AgentHost: agents.Config{RunAs: "www-data"}}, "desktop user": {DesktopUser: "www-data"}, "": {}} {
			cfg.StateDir = t.TempDir()
			s, err := New(cfg)
			if err == nil {
				err = s.Close()
			}
			refused := err != nil && strings.Contains(err.Error(), `can be changed by user "www-data"`)
			if refused != (changed != "" && flag != "") {
				t.Errorf("%s of the user, %s: %v", changed, flag, err)
			}
		}
	}
}

// TestDesktopUser: what a token for a desktop, or a process on it, can do is what
// the desktop's user can.
func TestDesktopUser(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	if os.Geteuid() != 0 {
		t.Skip("only root may run desktops as another user")
	}
	secret := filepath.Join(t.TempDir(), "secret") // in a folder of root's, mode 0700
	if err := os.WriteFile(secret, []byte("root's"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, Config{DesktopUser: "www-data"})
	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	made := s.post(t, "/v1/tokens", `{"scope":"agent","desktop":"main"}`).want(t, 200).json(t)
	if text := fmt.Sprint(made["allows"]); !strings.Contains(text, "as user www-data") {
		t.Errorf("allows: %s", text)
	}
	script := "cat " + secret + "; rm -f " + secret + "; id -un > ~/who.new; mv ~/who.new ~/who"
	body := fmt.Sprintf(`{"app":"xterm","args":["-e","sh","-c",%q],"wait":true}`, script)
	s.do(t, call{path: "/v1/desktop/launch", body: body, header: map[string]string{"Authorization": "Bearer " + made["token"].(string)}}).want(t, 200)
	ran := s.post(t, "/v1/processes/run", `{"command":"sh","args":["-c","id -un; xdpyinfo >/dev/null && echo display"],"desktop":"main"}`).want(t, 200).json(t)
	if got := ran["stdout"]; got != "www-data\ndisplay\n" {
		t.Errorf("a process on the desktop: %v", ran)
	}
	desk := s.desktop(t)
	who := filepath.Join(desk.Status().Home, "who")
	until(t, "the terminal has run its script", func() bool { _, err := os.Stat(who); return err == nil })
	for path, want := range map[string]string{who: "www-data\n", secret: "root's"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
		}
	}
}

// TestHomeIsPrivate: the home of main is for its user alone, also one that an
// earlier version made.
func TestHomeIsPrivate(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "home"), 0o755); err != nil { //nolint:gosec // as before
		t.Fatal(err)
	}
	s := serve(t, Config{StateDir: state})
	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	s.post(t, "/v1/desktops", `{"id":"other","width":320,"height":240}`).want(t, 201)
	for _, home := range []string{"home", "desktops/other/home"} {
		if info, err := os.Stat(filepath.Join(state, home)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", home, info, err)
		}
	}
	ran := s.post(t, "/v1/processes/run", `{"command":"sh","args":["-c","stat -c %a $HOME $XDG_RUNTIME_DIR"],"desktop":"main"}`).want(t, 200).json(t)
	if ran["stdout"] != "700\n700\n" {
		t.Errorf("the modes of the home and the runtime directory: %v", ran)
	}
}
