package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/internal/supervise"
)

// Command is the command line of an agent.
type Command struct {
	Agent string

	// Path and Args are the command line. Path is absolute.
	Path string
	Args []string

	// Program is the file that is the agent: Path, or what Path interprets.
	Program string

	// Env has additional environment variables, as entries for supervise.Environ. It has no
	// variables that the host's environment sets.
	Env []string

	Version string // empty: unknown
	Source  Source
}

// Command returns the command line of an agent. It searches the disk at each call and starts
// nothing. It returns [ErrUnknownAgent] if no agent has that name, and a [NotInstalledError]
// if the agent was not found.
func (r *Registry) Command(id string) (Command, error) {
	a, err := r.find(id)
	if err != nil {
		return Command{}, err
	}
	c, err := r.locate(a)
	if err != nil {
		return Command{}, err
	}
	c.Agent, c.Program = id, cmp.Or(c.Program, c.Path)
	c.Env = slices.DeleteFunc(slices.Concat(c.Env, a.setting), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !a.Custom && r.variable(name) != ""
	})
	return c, nil
}

// CheckTrusted returns an error if a user of Config.Untrusted could replace the agent of a command.
func (r *Registry) CheckTrusted(c Command) error {
	for _, file := range append([]string{c.Path, c.Program}, c.Args[:min(1, len(c.Args))]...) {
		if !filepath.IsAbs(file) {
			continue
		}
		if err := supervise.CheckNotReplaceable(file, r.others...); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// Prepare is like Command but first installs the agent if it is not installed, unless
// Config.RequirePreinstall is set. It blocks until the install ends, and returns the errors
// of [Registry.Command] and [Registry.Install]. An agent that cannot be installed gets a
// [NotInstalledError]. progress may be nil.
func (r *Registry) Prepare(ctx context.Context, id string, progress func(Progress)) (Command, error) {
	c, err := r.Command(id)
	var absent *NotInstalledError
	if !errors.As(err, &absent) || r.cfg.RequirePreinstall {
		return c, err
	}
	if a, _ := r.find(id); !a.Installable() || r.missing(a) != nil {
		return c, err
	}
	if _, err := r.Install(ctx, id, InstallOptions{Progress: progress}); err != nil {
		return c, err
	}
	return r.Command(id)
}

func (r *Registry) locate(a *Agent) (Command, error) {
	if a.Custom {
		path, err := r.lookPath(a.command[0])
		if err != nil {
			return Command{}, &NotInstalledError{a.ID, err.Error(), "correct its command in the configuration of agents"}
		}
		return Command{Path: path, Args: a.command[1:], Source: SourceLocal}, nil
	}
	if launcher := r.launcher(a.ID); launcher != "" {
		return Command{Path: launcher, Source: SourceLocal}, nil
	}
	if a.BuiltIn {
		return r.builtIn(a)
	}
	if err := r.missing(a); err != nil {
		return Command{}, err
	}
	for _, dir := range append([]string{r.cfg.Dir}, r.shared...) {
		if m, err := currentIn(dir, a.ID); err == nil {
			if c, err := m.command(r); err == nil {
				return c, nil
			}
		}
	}
	for _, words := range a.names {
		if path, err := r.lookPath(words[0]); err == nil {
			return Command{Path: path, Args: words[1:], Source: SourceLocal}, nil
		}
	}
	return Command{}, r.absent(a)
}

// Missing returns an error if a program that the agent needs besides its packages is not on
// PATH, and a nil pointer otherwise, also if no agent has that name. A nil pointer that is
// assigned to an error is not nil.
func (r *Registry) Missing(id string) *NotInstalledError {
	a, err := r.find(id)
	if err != nil {
		return nil
	}
	absent, _ := errors.AsType[*NotInstalledError](r.missing(a))
	return absent
}

// missing returns a [NotInstalledError] if a program that the agent needs is not on PATH.
func (r *Registry) missing(a *Agent) error {
	if a.needs == "" {
		return nil
	}
	if _, err := r.lookPath(a.needs); err == nil {
		return nil
	}
	return &NotInstalledError{a.ID, "its own program, " + a.needs + ", is not on PATH", a.needsRemedy}
}

func (r *Registry) absent(a *Agent) error {
	e := &NotInstalledError{Agent: a.ID}
	onPath := "put " + a.names[0][0] + " on PATH"
	if !a.Installable() {
		e.Reason, e.Remedy = "npm has no package of it", onPath
		return e
	}
	e.Remedy = "run 'deskhand install-agent " + a.ID + "', or " + onPath
	return e
}

// builtIn returns the command line of the mock agent.
func (r *Registry) builtIn(a *Agent) (Command, error) {
	argv := r.cfg.Mock
	if len(argv) == 0 {
		argv = []string{"deskhand", "mock-agent-process"}
	}
	path, err := r.lookPath(argv[0])
	if err != nil {
		return Command{}, &NotInstalledError{a.ID, err.Error(), "put deskhand on PATH, or set Config.Mock"}
	}
	return Command{Path: path, Args: slices.Clone(argv[1:]), Source: SourceBuiltIn}, nil
}

// launcher returns sandbox-agent's script that starts an agent, or "".
func (r *Registry) launcher(id string) string {
	home := dataHome(r.variable)
	if home == "" {
		return ""
	}
	file := filepath.Join(home, "sandbox-agent", "bin", "agent_processes", id+"-acp")
	if !isProgram(file) {
		return ""
	}
	return file
}

func (r *Registry) lookPath(name string) (string, error) {
	path, err := supervise.LookPath(name, r.environment())
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}
