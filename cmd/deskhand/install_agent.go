package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/deskhand/deskhand/agents/registry"
)

const aboutInstallAgent = `Installs an agent from npm, so that its first session starts without a download.
No server needs to run. Names: %s.

Agents are installed in $XDG_DATA_HOME/deskhand/agents. All users of this machine
find them in XDG_DATA_HOME=/usr/local/share. Scripts of packages do not run.
The same command continues an interrupted download.`

func (p program) installAgent(ctx context.Context, _ accessFlags, args []string) error {
	var f agentFlags
	var o registry.InstallOptions
	flags := p.flags("install-agent AGENT|--all", fmt.Sprintf(aboutInstallAgent, strings.Join(agentNames(), ", ")))
	all := flags.Bool("all", false, "install all agents that npm has")
	flags.BoolVarP(&o.Reinstall, "reinstall", "r", false, "install again if it is installed")
	flags.StringVar(&o.AgentVersion, "agent-version", "", "`version` or tag of the agent's package")
	flags.StringVar(&o.ProcessVersion, "agent-process-version", "", "`version` or tag of the agent's ACP adapter package")
	f.register(flags)
	flags.Bool("no-telemetry", false, "accepted for compatibility; there is no telemetry")
	p.ignoreAccess(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	switch {
	case *all && flags.NArg() > 0:
		return usagef("--all installs every agent, so leave %q out", flags.Arg(0))
	case *all && (o.AgentVersion != "" || o.ProcessVersion != ""):
		return usagef("--all excludes --agent-version and --agent-process-version")
	case !*all && flags.NArg() != 1:
		return usagef("install which agent? There are: %s; or --all", strings.Join(agentNames(), ", "))
	}
	if _, err := useHome(); err != nil {
		return err
	}
	cfg, err := f.settings()
	if err != nil {
		return err
	}
	r, err := registry.New(cfg)
	if err != nil {
		return err
	}
	install := agentInstall{program: p, registry: r, options: o}
	if *all {
		err = install.all(ctx)
	} else {
		err = install.one(ctx, flags.Arg(0))
	}
	return errors.Join(err, r.Close())
}

// agentNames returns the names of all agents, for messages.
func agentNames() []string {
	r, err := registry.New(registry.Config{})
	if err != nil {
		return nil
	}
	return r.IDs()
}

// agentInstall installs agents and prints what happens.
type agentInstall struct {
	program
	registry *registry.Registry
	options  registry.InstallOptions
}

// all installs the agents that npm has, and says for each other one why it was skipped.
func (c agentInstall) all(ctx context.Context) (err error) {
	r := c.registry
	for _, a := range r.Agents() {
		why := ""
		switch absent := r.Missing(a.ID); {
		case a.BuiltIn:
			why = "it is part of this program"
		case a.Custom:
			why = "its command is configured"
		case !a.Installable():
			why = "npm has no package of it"
		case absent != nil:
			why = absent.Reason + "; " + absent.Remedy
		default:
			err = errors.Join(err, c.one(ctx, a.ID))
			continue
		}
		_, failed := fmt.Fprintf(c.stdout, "%s is skipped: %s\n", a.ID, why)
		err = errors.Join(err, failed)
	}
	return err
}

func (c agentInstall) one(ctx context.Context, id string) error {
	r, o := c.registry, c.options
	var stage registry.Stage
	o.Progress = func(now registry.Progress) {
		if now.Stage != stage && !now.Stage.Over() { // the command prints the outcome
			fmt.Fprintf(c.stderr, "%s: %s\n", now.Agent, now.Message)
		}
		stage = now.Stage
	}
	got, err := r.Install(ctx, id, o)
	var failed *registry.InstallError
	var invalid *registry.InvalidError
	switch {
	case errors.Is(err, registry.ErrUnknownAgent):
		return usagef("there is no agent %q; there are: %s", id, strings.Join(r.IDs(), ", "))
	case errors.As(err, &invalid):
		return usagef("%v", invalid)
	case errors.As(err, &failed) && failed.Stderr != "":
		return fmt.Errorf("%w\n%s", err, indent(failed.Stderr))
	case err != nil:
		return err
	}
	command, err := r.Command(id)
	if err != nil {
		return err
	}
	state := "is installed"
	if got.Already {
		state = "is already installed"
	}
	_, err = fmt.Fprintf(c.stdout, "%s %s: %s\n", strings.TrimSpace(id+" "+command.Version), state, command.Program)
	return err
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

// homeOr returns dir, or the home directory if dir is empty.
func homeOr(dir string) string { return cmp.Or(dir, os.Getenv("HOME")) }
