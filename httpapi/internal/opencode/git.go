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
// The configuration of a repository may name programs. None of them runs: git has no hooks and no
// file system monitor, and may use no protocol, by which it would fetch missing objects. Callers that
// have git read files must turn off the filters by env. The commands must be such that do not write the
// index, unlike "git diff".
func (m *machine) git(ctx context.Context, dir string, env map[string]string, args ...string) ([]byte, error) {
	out, status, err := m.runGit(ctx, dir, env, args...)
	if err == nil && status != 0 {
		err = errNoGit
	}
	return out, err
}

// runGit is git, but returns git's exit status. It returns errNoGit if git does not exit by itself, or
// prints too much.
func (m *machine) runGit(ctx context.Context, dir string, env map[string]string, args ...string) (out []byte, status int, err error) {
	if _, err := m.Files.Stat(dir); err != nil {
		return nil, 0, err
	}
	processes, err := m.Processes()
	if err != nil {
		return nil, 0, err
	}
	all := map[string]string{"GIT_ALLOW_PROTOCOL": ""}
	maps.Copy(all, env)
	args = append([]string{"--no-optional-locks", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false"}, args...)
	got, err := processes.Run(ctx, process.Spec{Command: "git", Args: args, Dir: dir, Env: all, User: m.AgentUser}, process.RunOptions{Timeout: 10 * time.Second})
	if err != nil || got.Exit.Code == nil || got.StdoutTruncated {
		return nil, 0, errNoGit
	}
	return got.Stdout, *got.Exit.Code, nil
}

// noFilters returns the environment with which git runs none of the filters that its
// configuration names, or errNoGit if git does not list them. Filters are programs that change files
// on their way to a commit.
func (m *machine) noFilters(ctx context.Context, dir string) (map[string]string, error) {
	env := map[string]string{}
	set := func(name, value string) {
		n := strconv.Itoa(len(env) / 2)
		env["GIT_CONFIG_KEY_"+n], env["GIT_CONFIG_VALUE_"+n] = name, value
	}
	const options = `^filter\..*\.(clean|process)$`
	names, status, err := m.runGit(ctx, dir, nil, "config", "--includes", "--name-only", "-z", "--get-regexp", options)
	if err == nil && status > 1 { // 1: there is none
		err = errNoGit
	}
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if dot := strings.LastIndexByte(name, '.'); dot > 0 {
			set(name, "")
			set(name[:dot]+".required", "false")
		}
	}
	env["GIT_CONFIG_COUNT"] = strconv.Itoa(len(env) / 2)
	return env, nil
}

// changedContents returns the files whose content in the index differs from the last commit, or from
// the directory's.
func (m *machine) changedContents(ctx context.Context, dir string, env map[string]string) map[string]bool {
	all := map[string]bool{}
	for _, args := range [][]string{
		{"diff-index", "--cached", "--ignore-submodules=dirty", "--no-renames", "--relative", "--name-only", "-z", "HEAD"},
		{"ls-files", "--modified", "-z"},
	} {
		out, _ := m.git(ctx, dir, env, args...)
		for name := range strings.SplitSeq(string(out), "\x00") {
			all[name] = true
		}
	}
	return all
}
