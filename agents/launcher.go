package agents

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// launcher starts the agents of a host. Every child has the environment of the host's agents,
// and a control group of its own if the host can make one.
type launcher struct {
	cfg    Config
	user   supervise.User
	group  *supervise.Group
	groups *supervise.Cgroups
	closed func() bool  // whether the host is closed
	endAll func() error // ends all children, once
}

// lookUp returns an error if there is no such agent, or no such desktop. An empty desktop is
// none.
func (l *launcher) lookUp(agent, desktop string) error {
	if l.cfg.knows {
		if _, err := l.cfg.Registry.Agent(agent); err != nil {
			return err
		}
	}
	if desktop == "" {
		return nil
	}
	return l.cfg.FindDesktop(desktop)
}

// mount returns an agent's access to a desktop. An empty desktop is none.
func (l *launcher) mount(ctx, process context.Context, desktop, agent string) (Mount, error) {
	switch {
	case desktop == "":
		return Mount{}, nil
	case l.cfg.Mount == nil:
		return Mount{}, &InvalidError{"desktop", "cannot be given to agents here"}
	}
	return l.cfg.Mount(ctx, process, desktop, agent)
}

// environ returns an agent's environment with additional variables.
func (l *launcher) environ(sets ...[]string) ([]string, error) {
	return environ(l.user, l.cfg.environ(), slices.Concat(sets...))
}

// start starts an agent.
func (l *launcher) start(name string, launch Launch, env []string) (*childProcess, error) {
	if launch.Run != nil {
		return startBuiltin(launch), nil
	}
	if err := l.user.CanStart(launch.Path, launch.Args); err != nil {
		return nil, fmt.Errorf("%w; what npm installs is below $XDG_DATA_HOME of this program", err)
	}
	path, dir, err := l.locate(launch, env)
	if err != nil {
		return nil, err
	}
	group := l.groups.Add()
	c, in, out, err := l.group.StartPiped(supervise.Spec{
		Name: name, Path: path, Args: launch.Args, Env: supervise.Environ(env, "PWD="+dir), Dir: dir,
		Credential: l.user.Credential, Grace: termWait, Cgroup: group.File(),
	})
	if err = errors.Join(err, group.Started()); err != nil {
		return nil, errors.Join(err, group.End())
	}
	return &childProcess{
		in: in, out: out, pid: c.PID(), done: c.Done(), stderr: c.Tail,
		kill: func(ctx context.Context) error { return errors.Join(l.stop(ctx, c), group.End()) },
		exit: func() exitStatus {
			e := c.Exit()
			if e.Signal != 0 {
				return exitStatus{signal: unix.SignalName(e.Signal)}
			}
			return exitStatus{code: &e.Code}
		},
	}, nil
}

// locate returns the program and the working directory of an agent. Agents load configuration,
// with programs, from their working directory and the directories above it. Other users may be
// able to write to this program's.
func (l *launcher) locate(launch Launch, env []string) (path, dir string, err error) {
	path = launch.Path
	if launch.Dir != "" {
		dir, err = filepath.Abs(launch.Dir)
		return path, dir, err
	}
	if strings.Contains(path, "/") {
		path, err = filepath.Abs(path)
	}
	return path, l.user.HomeDir(env), err
}

// stop ends an agent's process and its descendants. While the host closes, all agents end
// together, because one search reads all processes of the machine.
func (l *launcher) stop(ctx context.Context, c *supervise.Child) error {
	if l.closed() {
		_ = l.endAll() // Close returns its error
		return nil
	}
	return c.Stop(ctx)
}

// endAfterInput ends all children. From the end of their input, these processes together have
// eofWait to end without a signal.
func (l *launcher) endAfterInput(all []*agentProcess) error {
	t := time.NewTimer(eofWait)
	defer t.Stop()
	for _, p := range all {
		select {
		case <-p.child.done:
		case <-t.C:
			return l.group.Close()
		}
	}
	return l.group.Close()
}

// providedNames lists the variables of this program that agents get with Config.CleanEnv, in
// addition to names with the prefixes and suffixes below. Without them they reach no model.
var providedNames = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
	"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR", "LOGNAME", "SHELL",
}

var (
	providedPrefixes = []string{
		"ANTHROPIC_", "CLAUDE_", "OPENAI_", "CODEX_", "GEMINI_", "GOOGLE_", "OPENCODE_", "CURSOR_", "AMP_", "PI_", "AWS_", "AZURE_",
	}
	providedSuffixes = []string{"_API_KEY", "_BASE_URL", "_AUTH_TOKEN"}
)

// inherited returns the part of this program's environment that agents get.
func inherited(clean bool, secrets []string) []string {
	env := supervise.Inherit(clean, secrets...)
	if !clean {
		return env
	}
	return append(env, slices.DeleteFunc(supervise.Inherit(false, secrets...), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		begins := func(p string) bool { return strings.HasPrefix(name, p) }
		ends := func(s string) bool { return strings.HasSuffix(name, s) }
		return !slices.Contains(providedNames, name) && !slices.ContainsFunc(providedPrefixes, begins) && !slices.ContainsFunc(providedSuffixes, ends)
	})...)
}

// environ returns an agent's environment: base, TMPDIR, set and IS_SANDBOX.
func environ(user supervise.User, base, set []string) ([]string, error) {
	temp, err := user.TempVariable()
	if err != nil {
		return nil, err
	}
	set = slices.Concat(temp, set)
	// As root, Claude Code asks for permissions unless this is exactly "1". Its adapter
	// accepts other values as well, and then they disagree.
	if user.Root() {
		set = append(set, "IS_SANDBOX=1")
	} else if !slices.Contains(base, "IS_SANDBOX=1") {
		set = append(set, "IS_SANDBOX")
	}
	return user.Environ(base, set...), nil
}
