package agents_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/mockagent"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testx11"
)

// asUser returns a host that runs its agents as the user "www-data", and a folder of that user.
func asUser(t *testing.T) (h *agents.Host, u supervise.User, cwd string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may run agents as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	top, err := os.MkdirTemp("", "agents-user") //nolint:usetesting // others may enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	cwd = filepath.Join(top, "project")
	err = errors.Join(os.Chmod(top, 0o755), os.Mkdir(cwd, 0o700), os.Chown(cwd, int(u.Credential.Uid), int(u.Credential.Gid))) //nolint:gosec // others may enter it
	if err != nil {
		t.Fatal(err)
	}
	h = host(t, agents.Config{RunAs: u.Name, StateDir: t.TempDir(), Launch: func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{Run: func(ctx context.Context, in io.Reader, out io.Writer) error {
			return mockagent.Run(ctx, in, out, mockagent.Config{})
		}}, nil
	}})
	post(t, h, "srv", initialize)
	return h, u, cwd
}

// problemsIn opens a session in a folder and returns its problems.
func problemsIn(t *testing.T, h *agents.Host, cwd string) string {
	t.Helper()
	s, err := h.Session(within(t), sessionIn(t, h, cwd, "[]"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(s.Problems, "\n")
}

func configureSkill(t *testing.T, h *agents.Host, cwd, source string) {
	t.Helper()
	entry := []byte(`{"sources":[{"type":"local","source":"` + source + `"}]}`)
	if err := h.Folders().Put(within(t), cwd, folders.Skills, "one", entry); err != nil {
		t.Fatal(err)
	}
}

// TestUserReadsNothingOfRoots: a skill in a folder of root is not copied to a place where the
// agents' user can read it.
func TestUserReadsNothingOfRoots(t *testing.T) {
	t.Parallel()
	h, _, cwd := asUser(t)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, filepath.Join(secret, "SKILL.md"), "root's")
	if err := os.Chmod(secret, 0o700); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	for _, source := range []string{secret, filepath.Join(cwd, "way")} {
		configureSkill(t, h, cwd, source)
		if err := os.Symlink(secret, filepath.Join(cwd, "way")); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		if got := problemsIn(t, h, cwd); !strings.Contains(got, "permission denied") {
			t.Errorf("%s: problems %q", source, got)
		}
		if _, err := os.Lstat(filepath.Join(cwd, ".agents")); err == nil {
			t.Errorf("%s was copied", source)
		}
	}
}

// TestUserFetchesNothingOfRoots: the server, which is root, fetches no repository from a folder
// for agents of another user.
func TestUserFetchesNothingOfRoots(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "git")
	h, _, cwd := asUser(t)
	repo := repository(t)
	for _, source := range []string{repo, "file://" + repo} {
		entry := []byte(`{"sources":[{"type":"git","source":"` + source + `"}]}`)
		if err := h.Folders().Put(within(t), cwd, folders.Skills, "one", entry); err != nil {
			t.Fatal(err)
		}
		if got := problemsIn(t, h, cwd); !strings.Contains(got, "transport 'file' not allowed") {
			t.Errorf("%s: problems %q", source, got)
		}
		if _, err := os.Lstat(filepath.Join(cwd, ".agents")); err == nil {
			t.Errorf("%s was fetched", source)
		}
	}
}

// TestUserDeletesNothingOfRoots: a folder of root that the agents' user moves to the place of
// a skill is neither replaced nor removed.
func TestUserDeletesNothingOfRoots(t *testing.T) {
	t.Parallel()
	h, u, cwd := asUser(t)
	rewrite := func(text string) {
		t.Helper()
		folder := filepath.Join(cwd, "source", "one")
		err := u.Do(func() error {
			return errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "SKILL.md"), []byte(text), 0o600))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rewrite("first")
	configureSkill(t, h, cwd, "source")
	if got := problemsIn(t, h, cwd); got != "" {
		t.Fatalf("problems %q", got)
	}
	at := filepath.Join(cwd, ".agents", "skills", "one")
	for _, path := range []string{at, filepath.Join(at, "SKILL.md"), filepath.Join(cwd, ".sandbox-agent", "config", "skills.json")} {
		if info, err := os.Lstat(path); err != nil || info.Sys().(*syscall.Stat_t).Uid != u.Credential.Uid {
			t.Errorf("%s: %+v, %v; want one of the user's", path, info, err)
		}
	}
	keep := filepath.Join(cwd, ".agents", "skills", "keep")
	write(t, filepath.Join(keep, "file"), "root's")
	err := errors.Join(os.Chmod(keep, 0o700), u.Do(func() error { return errors.Join(os.RemoveAll(at), os.Rename(keep, at)) })) //nolint:gosec // a folder
	if err != nil {
		t.Fatal(err)
	}
	kept := func(what string) {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(at, "file")); err != nil || string(b) != "root's" {
			t.Errorf("after it was %s, the file of root's is %q, %v", what, b, err)
		}
	}
	rewrite("second, and longer")
	if got := problemsIn(t, h, cwd); !strings.Contains(got, "permission denied") {
		t.Errorf("to replace it: problems %q", got)
	}
	kept("to be replaced")
	if err := h.Folders().Delete(within(t), cwd, folders.Skills, "one"); err != nil {
		t.Fatal(err)
	}
	if got := problemsIn(t, h, cwd); !strings.Contains(got, "permission denied") {
		t.Errorf("to remove it: problems %q", got)
	}
	kept("to be removed")
}
