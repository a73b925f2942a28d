package opencode

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/process"
)

// errNoGit says that git failed.
var errNoGit = errors.New("the directory is in no git repository")

// git runs git in a directory as the user of agents, and returns its output. It returns errNoGit
// if git fails, which it does outside of repositories.
//
// The configuration of a repository may name programs. None of them runs: git has no file system
// monitor and may use no protocol, by which it would fetch missing objects. Callers that have
// git read files must turn off the filters by env.
func (m *machine) git(ctx context.Context, dir string, env map[string]string, args ...string) ([]byte, error) {
	if _, err := m.Files.Stat(dir); err != nil {
		return nil, err
	}
	processes, err := m.Processes()
	if err != nil {
		return nil, err
	}
	all := map[string]string{"GIT_ALLOW_PROTOCOL": ""}
	maps.Copy(all, env)
	args = append([]string{"--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false"}, args...)
	got, err := processes.Run(ctx, process.Spec{Command: "git", Args: args, Dir: dir, Env: all, User: m.AgentUser}, process.RunOptions{Timeout: 10 * time.Second})
	if err != nil || got.Exit.Code == nil || *got.Exit.Code != 0 || got.StdoutTruncated {
		return nil, errNoGit
	}
	return got.Stdout, nil
}

// noFilters returns the environment with which git runs none of the filters that its
// configuration names. Filters are programs that change files on their way to a commit.
func (m *machine) noFilters(ctx context.Context, dir string) map[string]string {
	env := map[string]string{}
	set := func(name, value string) {
		n := strconv.Itoa(len(env) / 2)
		env["GIT_CONFIG_KEY_"+n], env["GIT_CONFIG_VALUE_"+n] = name, value
	}
	const options = `^filter\..*\.(clean|process)$`
	names, _ := m.git(ctx, dir, nil, "config", "--includes", "--name-only", "-z", "--get-regexp", options) // git fails if there is none
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if dot := strings.LastIndexByte(name, '.'); dot > 0 {
			set(name, "")
			set(name[:dot]+".required", "false")
		}
	}
	env["GIT_CONFIG_COUNT"] = strconv.Itoa(len(env) / 2)
	return env
}
