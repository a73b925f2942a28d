package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/agents/mockagent"
	"github.com/deskhand/deskhand/agents/registry"
)

// agentFlags say which agents there are.
type agentFlags struct {
	config     string
	preinstall bool
}

func (f *agentFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "agents-config", "", "JSON `file` with agents of your own: {\"agents\": {\"NAME\": {\"command\": [\"PROGRAM\"]}}}")
}

// registerServer adds what only servers have.
func (f *agentFlags) registerServer(flags *pflag.FlagSet) {
	f.register(flags)
	flags.BoolVar(&f.preinstall, "require-preinstall", false, "do not install an agent when its first session begins")
}

// settings are those of the registry of agents.
func (f *agentFlags) settings() (registry.Config, error) {
	cfg := registry.Config{RequirePreinstall: f.preinstall}
	if v := variable("REQUIRE_PREINSTALL"); slices.Contains([]string{"1", "true", "yes"}, v) {
		cfg.RequirePreinstall = true
	}
	self, err := os.Executable()
	if err != nil {
		return cfg, fmt.Errorf("find this program: %w", err)
	}
	cfg.Mock = []string{self, mockCommand}
	if f.config != "" {
		cfg.Custom, err = registry.ReadCustom(f.config)
	}
	return cfg, err
}

const (
	mockCommand = "mock-agent-process"

	aboutMock = `Speaks the Agent Client Protocol on standard input and output, as an agent
without a model: for trying things out. Its first answer tells what it understands.`
)

// mockAgent is the mock agent as a process.
func (p program) mockAgent(ctx context.Context, args []string) error {
	flags := p.flags(mockCommand, aboutMock)
	dir := flags.String("dir", "", "`directory` that keeps sessions; $XDG_STATE_HOME/deskhand/mock-agent, unless given")
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return usagef("%s takes no argument, so not %q", mockCommand, flags.Arg(0))
	}
	if *dir == "" {
		*dir = userDir("XDG_STATE_HOME", ".local/state", "mock-agent")
		if err := os.MkdirAll(*dir, 0o700); err != nil && *dir != "" {
			// As of --agent-user, who need not have a home.
			fmt.Fprintf(p.stderr, "sessions are forgotten when this process ends: %v\n", err)
			*dir = ""
		}
	}
	err := mockagent.Run(ctx, p.stdin, p.stdout, mockagent.Config{Dir: *dir, Version: versionText()})
	if ctx.Err() != nil && !errors.Is(err, mockagent.ErrCrash) {
		return nil
	}
	return err
}

// userDir is a folder of deskhand's in one of this user's XDG directories.
// Empty: the user has no home.
func userDir(variable, fallback string, below ...string) string {
	base := os.Getenv(variable)
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, fallback)
	}
	return filepath.Join(append([]string{base, "deskhand"}, below...)...)
}
