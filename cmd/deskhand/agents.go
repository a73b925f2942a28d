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

// agentFlags configure the registry of agents.
type agentFlags struct {
	config     string
	preinstall bool
}

func (f *agentFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "agents-config", "", "JSON `file` with your own agents: {\"agents\": {\"NAME\": {\"command\": [\"PROGRAM\"]}}}")
}

// registerServer adds the flags of the server alone.
func (f *agentFlags) registerServer(flags *pflag.FlagSet) {
	f.register(flags)
	flags.BoolVar(&f.preinstall, "require-preinstall", false, "do not install agents when their first session begins")
}

// settings returns the configuration of the registry of agents.
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
without a model, for experiments. Its first answer lists the prompts that it understands.`
)

// mockAgent runs the mock agent.
func (p program) mockAgent(ctx context.Context, _ accessFlags, args []string) error {
	flags := p.flags(mockCommand, aboutMock)
	p.ignoreAccess(flags)
	dir := flags.String("dir", "", "`directory` that keeps sessions (default $XDG_STATE_HOME/deskhand/mock-agent)")
	if err := parseNone(flags, args); err != nil {
		return err
	}
	if *dir == "" {
		*dir = userDir("XDG_STATE_HOME", ".local/state", "mock-agent")
		if err := os.MkdirAll(*dir, 0o700); err != nil && *dir != "" {
			// The user of --agent-user may have no home.
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

// userDir returns a folder of deskhand's in one of this user's XDG directories, or
// "" if the user has no home.
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
