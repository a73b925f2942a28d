package deploytest

import (
	"encoding/json"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestFirstSteps does what a newcomer does.
func TestFirstSteps(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm", "chromium", "curl", "node", "npm")
	dir := t.TempDir()
	run := func(script string, env ...string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), env...)
		cmd.Stderr = new(strings.Builder)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s%s", script, err, out, cmd.Stderr)
		}
		return string(out)
	}
	if token := run(block(t, "docs/first-steps.md", "token")); !regexp.MustCompile(`^[A-Za-z0-9_-]{32}\n$`).MatchString(token) {
		t.Errorf("the token is %q", token)
	}
	s := serve(t, "deskhand server --desktop")
	env := "DESKHAND_TOKEN=" + s.token

	file := filepath.Join(dir, "typed")
	programs := block(t, "docs/first-steps.md", "programs", "127.0.0.1:2468", s.at, "/tmp/first-steps", file)
	if out := run(programs, env); strings.Count(out, `"windowId"`) != 2 || !strings.Contains(out, `{"ok":true}`) {
		t.Errorf("two windows and the typed text are answered:\n%s", out)
	}
	typed := func(want string) {
		t.Helper()
		until(t, "the terminal has done what was typed", func() bool {
			text, _ := os.ReadFile(file)
			return string(text) == want
		})
	}
	typed("hello\n")
	picture, err := os.Open(filepath.Join(dir, "desk.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	if _, err := png.Decode(picture); err != nil {
		t.Errorf("desk.png: %v", err)
	}

	variables, _, _ := strings.Cut(programs, "\n")
	out := run(variables+"\n"+block(t, "docs/first-steps.md", "session", "/tmp/first-steps", file), env)
	if !strings.Contains(out, `"healthy":true`) || !strings.Contains(out, `"type":"turn.ended"`) {
		t.Errorf("the session prints:\n%s", out)
	}
	typed("hello\nagent\n")

	modules, err := sdktest.Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	program := block(t, "docs/first-steps.md", "sdk", "127.0.0.1:2468", s.at)
	if err := os.WriteFile(filepath.Join(dir, "first.mjs"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	out = run(block(t, "docs/first-steps.md", "node"), env)
	if !strings.Contains(out, "\nagent {") || !strings.Contains(out, "stopReason: 'end_turn'") {
		t.Errorf("the program of the SDK prints:\n%s", out)
	}
	version := strings.TrimSpace(installed(t, modules))
	if !strings.Contains(repository(t, "docs/first-steps.md"), "sandbox-agent@"+version+"\n") {
		t.Errorf("the guide installs another version than the tested %s", version)
	}
}

// installed returns the version of the SDK.
func installed(t *testing.T, modules string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(modules, "sandbox-agent", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Version string }
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest.Version
}
