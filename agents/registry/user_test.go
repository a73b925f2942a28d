package registry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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

// askedTemp makes a directory that all users may enter the one for temporary files.
func askedTemp(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may")
	}
	dir, err := os.MkdirTemp("", "asked") //nolint:usetesting // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	return dir
}

// askedAsUser returns a registry in which a script is the agent "asked", as another user.
func askedAsUser(t *testing.T, dir, text string) *Registry {
	t.Helper()
	agent := script(t, filepath.Join(dir, "agent"), text)
	return newRegistry(t, Config{RunAs: "www-data", Env: []string{"PATH=" + os.Getenv("PATH")}, Custom: []Custom{{ID: "asked", Command: []string{agent}}}})
}

// TestAskRemovesNothingOfRoots asks an agent that moves a directory with files of root's into
// its working directory.
func TestAskRemovesNothingOfRoots(t *testing.T) { //nolint:paralleltest // it sets a variable
	dir := askedTemp(t)
	theirs := filepath.Join(dir, "theirs")
	write(t, filepath.Join(theirs, "moved", "private", "file"), "of root", 0o600)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(theirs, "moved", "private"), 0o700), //nolint:gosec // others may enter it
		os.Chown(theirs, 33, 33), os.Chown(filepath.Join(theirs, "moved"), 33, 33)); err != nil {
		t.Fatal(err)
	}
	r := askedAsUser(t, dir, "mv "+filepath.Join(theirs, "moved")+" . && echo moved >&2; exit 7")
	if err := r.Ask(t.Context(), "asked"); err == nil || err.(*AskError).Stderr != "moved\n" { //nolint:errorlint // it is not wrapped
		t.Errorf("asked: %#v", err)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "deskhand-ask-*", "folder", "moved", "private", "file")); err != nil || len(found) != 1 {
		t.Errorf("files of root's: %q, %v", found, err)
	}
}

// TestAskKeepsItsFolder asks an agent that puts a directory of a third user in the place of its
// working directory.
func TestAskKeepsItsFolder(t *testing.T) { //nolint:paralleltest // it sets a variable
	dir := askedTemp(t)
	theirs, team := filepath.Join(dir, "theirs"), filepath.Join(dir, "theirs", "team")
	write(t, filepath.Join(team, "private", "file"), "of another", 0o600)
	if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Chmod(team, 0o777), os.Chmod(filepath.Join(team, "private"), 0o700), //nolint:gosec // as /tmp
		os.Chown(theirs, 33, 33), os.Chown(team, 65534, 65534), os.Chown(filepath.Join(team, "private"), 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	r := askedAsUser(t, dir, "p=$PWD; cd /; mv $p "+theirs+"/away && mv "+team+" $p; exit 7")
	if err := r.Ask(t.Context(), "asked"); err == nil {
		t.Error("no error")
	}
	if kept, err := os.ReadFile(filepath.Join(team, "private", "file")); err != nil || string(kept) != "of another" {
		t.Errorf("the file of another user: %q, %v", kept, err)
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
