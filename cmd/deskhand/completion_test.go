package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// words returns the first column of what __complete prints.
func words(t *testing.T, args ...string) string {
	t.Helper()
	got := runCommandLine(t, environ(t), append([]string{completeCommand}, args...)...)
	if got.status != exitOK || got.stderr != "" {
		t.Fatalf("%q: %+v", args, got)
	}
	var list []string
	for line := range strings.Lines(got.stdout) {
		word, _, _ := strings.Cut(line, "\t")
		list = append(list, word)
	}
	return strings.Join(list, " ")
}

func TestComplete(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                      "server api record daemon opencode gigacode install install-agent credentials mcp acp health upgrade completion man version help",
		"in":                                    "install install-agent",
		"-t secret up":                          "upgrade",
		"no-such-command ":                      "",
		"server --log-l":                        "--log-level",
		"server --log-level ":                   "debug info warn error",
		"server --log-level = w":                "warn",
		"server --token-file ":                  "",
		"server -n --log-fo":                    "--log-format",
		"daemon ":                               "start stop status",
		"daemon start -- --host-":               "--host-desktop",
		"install ":                              "desktop",
		"install desktop --package-manager a":   "apt apk",
		"install-agent open":                    "opencode",
		"credentials extract --rev":             "--reveal",
		"api desktop mouse ":                    "click down drag move position scroll up",
		"api desktop mouse click --button ":     "left middle right back forward",
		"api --endpoint http://x desktop scree": "screenshot",
		"api desktop screenshot --fo":           "--format",
		"api desktop screenshot ":               "region",
		"api no such ":                          "",
	} {
		args := strings.Split(line, " ")
		got := words(t, args...)
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestCompletionScripts lets the real shells complete a line.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "bash", "zsh", "fish")
	for shell, c := range map[string]struct{ script, want string }{
		"bash": {`. "$0"; COMP_WORDS=(deskhand server --log-level ""); COMP_CWORD=3; _deskhand; echo "${COMPREPLY[@]}"`, "debug info warn error"},
		"zsh":  {`compdef() { }; _describe() { print -r -- ${(P)2}; }; source "$0"; words=(deskhand daemon st); CURRENT=3; _deskhand`, "start: stop: status:"},
		"fish": {`source $argv[1]; complete -C "deskhand server --log-level wa"`, "warn"},
	} {
		dir := t.TempDir()
		if err := os.Symlink(binary, filepath.Join(dir, "deskhand")); err != nil {
			t.Fatal(err)
		}
		script := filepath.Join(dir, "script")
		if err := os.WriteFile(script, []byte(runCommandLine(t, environ(t), "completion", shell).stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(shell, "-c", c.script, script)
		cmd.Env = environ(t, "PATH="+dir+":"+os.Getenv("PATH"))
		if got := finish(t, cmd); got.status != 0 || got.stderr != "" || strings.Join(strings.Fields(got.stdout), " ") != c.want {
			t.Errorf("%s: %+v, want %q", shell, got, c.want)
		}
	}
}

// TestManualPage wants every command and flag in the manual page, and no fault that man finds.
func TestManualPage(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "mandoc")
	page := runCommandLine(t, environ(t), "man")
	if page.status != exitOK || page.stderr != "" {
		t.Fatalf("%+v", page)
	}
	check := exec.Command("mandoc", "-T", "utf8", "-W", "error")
	check.Stdin = strings.NewReader(page.stdout)
	shown := finish(t, check)
	if shown.status != 0 || shown.stderr != "" {
		t.Errorf("mandoc: %+v", shown)
	}
	text := strings.NewReplacer("_\b", "").Replace(shown.stdout)
	for i := strings.IndexByte(text, '\b'); i > 0; i = strings.IndexByte(text, '\b') {
		text = text[:i-1] + text[i+1:] // bold is a letter over itself
	}
	for _, c := range listedCommands() {
		if c.name != "help" && !strings.Contains(text, "deskhand "+c.name) {
			t.Errorf("it lacks the command %s", c.name)
		}
	}
	for _, want := range []string{"1.2.3-test", "-H, --host address", "--log-level debug|info|warn|error", "DESKHAND_BASE_URL", "start    start the server and wait"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
}
