package opencode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

// errNoRepository says that git found no repository.
var errNoRepository = errors.New("the directory is in no git repository")

// gitTimeout is how long git may run.
const gitTimeout = 10 * time.Second

// gitOptions are the options of each call of git. They turn off hooks, the file system monitor, bare
// repositories inside of other ones, and fetches: "git fetch" ends when it reads fetch.parallel.
var gitOptions = []string{
	"--no-optional-locks", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false",
	"-c", "safe.bareRepository=explicit", "-c", "fetch.parallel=-1",
}

// git runs git in a directory as the user of agents, and returns its output. There is no output if
// git's status is 1, with which it says that it found nothing. git returns errNoRepository outside of
// repositories, and a problem if git fails.
//
// The configuration of a repository may name programs. None of them runs: git has no hooks and no
// file system monitor, and fetches no missing objects, because a fetch runs programs for the protocol and
// for credentials. Only new versions of git know GIT_NO_LAZY_FETCH. Others start a fetch, which gitOptions
// ends. Callers that have git read files must turn off the filters by env. The commands must be such that
// do not write the index, unlike "git diff".
func (m *machine) git(ctx context.Context, dir string, env map[string]string, args ...string) ([]byte, error) {
	if _, err := m.Files.Stat(dir); err != nil {
		return nil, err
	}
	processes, err := m.Processes()
	if err != nil {
		return nil, err
	}
	all := map[string]string{"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
	maps.Copy(all, env)
	spec := process.Spec{Command: "git", Args: slices.Concat(gitOptions, args), Dir: dir, Env: all, User: m.AgentUser}
	got, err := processes.Run(ctx, spec, process.RunOptions{Timeout: gitTimeout})
	if err != nil {
		return nil, err
	}
	failed := func(text string) error {
		text = fmt.Sprintf("stream error: git %s: %s: %.1000s", args[0], text, bytes.TrimSpace(got.Stderr))
		return rest.StreamError.Problem(strings.TrimSuffix(text, ": "))
	}
	switch code := got.Exit.Code; {
	case got.TimedOut:
		return nil, failed("no end after " + gitTimeout.String())
	case got.StdoutTruncated:
		return nil, failed("too much output")
	case code == nil:
		return nil, failed("ended by " + got.Exit.Signal)
	case *code == 0:
		return got.Stdout, nil
	case *code == 1:
		return nil, nil
	case strings.HasPrefix(string(got.Stderr), "fatal: not a git repository"):
		return nil, errNoRepository
	default:
		return nil, failed("exit status " + strconv.Itoa(*code))
	}
}

// noFilters returns the environment with which git runs none of the filters that its
// configuration names. Filters are programs that change files
// on their way to a commit.
func (m *machine) noFilters(ctx context.Context, dir string) (map[string]string, error) {
	env := map[string]string{}
	set := func(name, value string) {
		n := strconv.Itoa(len(env) / 2)
		env["GIT_CONFIG_KEY_"+n], env["GIT_CONFIG_VALUE_"+n] = name, value
	}
	const options = `^filter\..*\.(clean|process)$`
	names, err := m.git(ctx, dir, nil, "config", "--includes", "--name-only", "-z", "--get-regexp", options)
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
