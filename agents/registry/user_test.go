package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An agent that is asked, or tried, runs as the user whom agents run as, and has
// that user's credentials.
func TestRunAs(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may")
	}
	dir, err := os.MkdirTemp("", "runas") //nolint:usetesting // not everybody may enter t.TempDir
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
		RunAs: "nobody", Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_DATA_HOME=" + home},
		Custom: []Custom{
			{ID: "asked", Command: command(filepath.Join(dir, "asked"))},
			{ID: "closed", Command: command(filepath.Join(t.TempDir(), "closed"))},
		},
	})
	if err := r.Ask(t.Context(), "asked"); err == nil || !strings.HasPrefix(err.(*AskError).Stderr, "65534:"+r.user.Home+":\n") { //nolint:errorlint // it is that
		t.Errorf("asked: %#v", err)
	}
	if err := r.Ask(t.Context(), "closed"); err == nil || !strings.Contains(err.Error(), `user "nobody" may not enter `) {
		t.Errorf("closed: %v", err)
	}
	if r.HasCredentials("codex") {
		t.Error("root's credentials count for another user")
	}
	_, err = r.Install(t.Context(), "codex", InstallOptions{})
	if err == nil || !strings.Contains(err.Error(), `user "nobody" may not enter `) || !strings.Contains(err.Error(), "XDG_DATA_HOME") {
		t.Errorf("an install that the user could not start: %v", err)
	}
	if _, err := New(Config{RunAs: "nobody-such"}); err == nil {
		t.Error("a user that does not exist was taken")
	}
}
