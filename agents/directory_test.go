package agents_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/internal/supervise"
)

// TestDirectory starts a script, which writes its working directory, with several homes.
func TestDirectory(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	top, err := os.MkdirTemp("", "agents-directory") //nolint:usetesting // others may enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	home, other, closed, program := filepath.Join(top, "home"), filepath.Join(top, "other"), filepath.Join(top, "closed"), filepath.Join(top, "agent")
	err = errors.Join(os.Chmod(top, 0o755), os.Mkdir(home, 0o755), os.Mkdir(other, 0o755), os.Mkdir(closed, 0o700), //nolint:gosec // others may enter it
		os.WriteFile(program, []byte("#!/bin/sh\n"+`echo "[\"$(pwd -P)\",\"$PWD\"]"; exec cat`+"\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	relative := func(path string) string {
		path, err := filepath.Rel(here, path)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	type launch struct{ runAs, path, dir, home, want string }
	tests := map[string]launch{
		"a home":                   {"", program, "", home, home},
		"a relative program":       {"", relative(program), "", home, home},
		"no home":                  {"", program, "", "", "/"},
		"a home that is missing":   {"", program, "", filepath.Join(top, "missing"), "/"},
		"a home that is a file":    {"", program, "", program, "/"},
		"a relative home":          {"", program, "", relative(home), "/"},
		"a directory":              {"", program, other, home, other},
		"a relative directory":     {"", program, relative(other), home, other},
		"a program relative to it": {"", "../agent", other, home, other},
	}
	if os.Geteuid() == 0 {
		u, err := supervise.LookupUser("www-data")
		if err != nil {
			t.Fatal(err)
		}
		tests["another user"] = launch{"www-data", program, "", "-", u.Home}
		tests["a home for another user"] = launch{"www-data", program, "", home, home}
		tests["a home that is closed to the user"] = launch{"www-data", program, "", closed, "/"}
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := agents.Launch{Path: c.path, Dir: c.dir}
			if c.home != "-" {
				start.Env = []string{"HOME=" + c.home}
			}
			h := host(t, agents.Config{RunAs: c.runAs, Launch: func(context.Context, string) (agents.Launch, error) { return start, nil }})
			post(t, h, "srv", `{"method":"hello"}`)
			events := follow(t, h, "srv", agents.Replay{}, "]")
			if got, want := string(events[0].Payload), `["`+c.want+`","`+c.want+`"]`; got != want {
				t.Errorf("the agent started in %s, want %s", got, want)
			}
		})
	}
}
