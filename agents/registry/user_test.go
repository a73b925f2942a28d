package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/internal/supervise"
)

// TestRunAs: Ask and Install run agents as the user of Config.RunAs, and find that user's
// credentials.
func TestRunAs(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may")
	}
	dir, err := os.MkdirTemp("", "runas") //nolint:usetesting // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const whoami = `echo "$(id -u):$HOME:$XDG_DATA_HOME" >&2; exit 7`
	command := func(path string) []string { return []string{script(t, path, whoami)} }
	home := t.TempDir()
	write(t, filepath.Join(home, ".codex/auth.json"), `{"OPENAI_API_KEY":"sk-of-root"}`, 0o600)
	r := newRegistry(t, Config{
		RunAs: "www-data", Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_DATA_HOME=" + home},
		Custom: []Custom{
			{ID: "asked", Command: command(filepath.Join(dir, "asked"))},
			{ID: "closed", Command: command(filepath.Join(t.TempDir(), "closed"))},
		},
	})
	if err := r.Ask(t.Context(), "asked"); err == nil || !strings.HasPrefix(err.(*AskError).Stderr, "33:"+r.user.Home+":\n") { //nolint:errorlint // it is not wrapped
		t.Errorf("asked: %#v", err)
	}
	if err := r.Ask(t.Context(), "closed"); err == nil || !strings.Contains(err.Error(), `user "www-data" may not enter `) {
		t.Errorf("closed: %v", err)
	}
	if r.AgentsWithCredentials()["codex"] {
		t.Error("root's credentials count for another user")
	}
	_, err = r.Install(t.Context(), "codex", InstallOptions{})
	if err == nil || !strings.Contains(err.Error(), `user "www-data" may not enter `) || !strings.Contains(err.Error(), "XDG_DATA_HOME") {
		t.Errorf("an install that the user could not start: %v", err)
	}
	if _, err := New(Config{RunAs: "no-such-user"}); err == nil {
		t.Error("a user that does not exist was taken")
	}
}

// TestAskAtHome asks an agent that writes its working directory, PWD and the folder of its session.
func TestAskAtHome(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ask") //nolint:usetesting // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // others may enter it
		t.Fatal(err)
	}
	agent := script(t, filepath.Join(dir, "agent"), `read -r line; echo '{"jsonrpc":"2.0","id":0,"result":{}}'; read -r line
echo "$(pwd -P) $(tr '\0' '\n' </proc/$$/environ | grep '^PWD=') ${line#*'"cwd":'}" >&2; exit 7`)
	check := func(runAs, home, want string) {
		t.Helper()
		env := []string{"PATH=" + os.Getenv("PATH"), "PWD=" + dir, "HOME=" + home}
		r := newRegistry(t, Config{RunAs: runAs, Env: env, Custom: []Custom{{ID: "asked", Command: []string{agent}}}})
		err := r.Ask(t.Context(), "asked")
		failed, ok := errors.AsType[*AskError](err)
		if !ok {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("\n%[1]s PWD=%[1]s %[1]q,", want); !strings.Contains(failed.Stderr, want) {
			t.Errorf("user %q with home %q: it wrote %q, want %q", runAs, home, failed.Stderr, want)
		}
	}
	home := t.TempDir()
	check("", home, home)
	check("", filepath.Join(home, "missing"), "/")
	if os.Geteuid() == 0 {
		u, err := supervise.LookupUser("www-data")
		if err != nil {
			t.Fatal(err)
		}
		check("www-data", home, u.Home)
	}
}

// A file of the agents' user is read with that user's rights, and a device or a FIFO
// in its place is not read.
func TestCredentialFilesOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may")
	}
	home, err := os.MkdirTemp("", "runas") //nolint:usetesting // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	const key = `{"OPENAI_API_KEY":"sk"}`
	file := filepath.Join(home, ".codex", "auth.json")
	write(t, file, key, 0o644)
	if err := errors.Join(os.Chmod(home, 0o755), os.Chmod(filepath.Dir(file), 0o755)); err != nil { //nolint:gosec // others may enter it
		t.Fatal(err)
	}
	r := newRegistry(t, Config{RunAs: "www-data", Home: home})
	if !r.AgentsWithCredentials()["codex"] {
		t.Fatal("a file that the user may read does not count")
	}
	mine := filepath.Join(t.TempDir(), "auth.json")
	write(t, mine, key, 0o600)
	if err := errors.Join(os.Remove(file), os.Symlink(mine, file)); err != nil {
		t.Fatal(err)
	}
	if r.AgentsWithCredentials()["codex"] {
		t.Error("a link leads to a file of root's")
	}
	fifo := filepath.Join(home, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{fifo, "/dev/zero"} {
		if _, err := readCredentialFile(file, 1<<20); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
