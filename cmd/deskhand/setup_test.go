package main

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestAuthority wants a program with only DISPLAY to be able to connect to the
// desktop, until the desktop ends.
func TestAuthority(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xauth", "xdpyinfo")
	env := environ(t)
	s := serve(t, env)
	var desk struct{ Display string }
	s.ask(t, "/v1/desktop/start", `{}`, &desk)
	run := func(name string, args ...string) result {
		cmd := exec.Command(name, args...)
		cmd.Env = append(env, "DISPLAY="+desk.Display)
		return finish(t, cmd)
	}
	if got := run("xdpyinfo"); got.status != 0 || !strings.Contains(got.stdout, "1440x900 pixels") {
		t.Errorf("xdpyinfo on %s: %+v", desk.Display, got)
	}
	// A program without the cookie cannot connect.
	stranger := exec.Command("xdpyinfo")
	stranger.Env = append(environ(t), "DISPLAY="+desk.Display)
	if got := finish(t, stranger); got.status == 0 {
		t.Errorf("a program without the cookie was let in on %s", desk.Display)
	}
	if got := run("xauth", "list", desk.Display); got.stdout == "" {
		t.Errorf("xauth does not find the entry: %+v", got)
	}
	s.ask(t, "/v1/desktop/stop", `{}`, nil)
	if got := run("xauth", "list"); got.stdout != "" {
		t.Errorf("after the stop xauth lists %+v", got)
	}
	s.ask(t, "/v1/desktop/start", `{}`, &desk)
	if got := run("xdpyinfo"); got.status != 0 {
		t.Errorf("xdpyinfo, started again: %+v", got)
	}
	s.signal(t, syscall.SIGTERM)
	if got := run("xauth", "list"); got.stdout != "" {
		t.Errorf("after the end xauth lists %+v", got)
	}
}

// TestMissingPrograms runs a server on a system that has nothing.
func TestMissingPrograms(t *testing.T) {
	t.Parallel()
	env := append(environ(t), "PATH="+t.TempDir())
	s := serve(t, env)
	var status struct {
		State               string
		MissingDependencies []string
		InstallCommand      string
	}
	s.ask(t, "/v1/desktop/status", "", &status)
	if status.State != "install_required" || status.InstallCommand != "deskhand install desktop --yes" || !slices.Contains(status.MissingDependencies, "Xvfb") {
		t.Errorf("status: %+v", status)
	}
	code, answer := s.call(t, "/v1/desktop/start", `{}`)
	var problem struct{ Type, Code string }
	if err := json.Unmarshal(answer, &problem); err != nil || code != http.StatusServiceUnavailable ||
		!strings.HasSuffix(problem.Type, ":desktop_dependencies_missing") || !strings.Contains(string(answer), status.InstallCommand) {
		t.Errorf("start: %d: %s", code, answer)
	}
	for _, flag := range []string{"--desktop", "--demo"} {
		got := runCommandLine(t, env, "server", "--port", "0", "--state-dir", t.TempDir(), flag)
		if got.status != exitFailure || !strings.Contains(got.stderr, "Xvfb") || !strings.Contains(got.stderr, "deskhand install desktop") {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

// TestNoHome runs a server for a user who has no home directory.
func TestNoHome(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	s := serve(t, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()})
	s.ask(t, "/v1/desktop/start", `{}`, nil)
	s.ask(t, "/v1/desktop/launch", launchTerminal, nil)
}

func TestStaticBinary(t *testing.T) {
	t.Parallel()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a dynamic linker")
		}
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range info.Deps {
		found = found || m.Path == "github.com/gofiber/fiber/v2"
		if m.Path == "github.com/gofiber/fiber/v3" {
			t.Errorf("%s %s is in it", m.Path, m.Version)
		}
	}
	if !found {
		t.Error("its modules cannot be told")
	}
}

// TestDemo runs the commands that the demo suggests.
func TestDemo(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm", "chromium", "curl")
	s := serve(t, environ(t), "--demo")
	var commands []string
	poll(t, readyLimit, "it says what to do", func() string {
		text := s.stdout.String()
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "  ") {
				commands = append(commands, line)
			}
		}
		if strings.HasSuffix(text, "Ctrl-C ends the server.\n") {
			return ""
		}
		commands = nil
		return text
	})
	dir := t.TempDir()
	answers := ""
	for _, command := range commands {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		answers += finish(t, cmd).stdout
	}
	if strings.TrimSpace(answers) != `{"ok":true}` {
		t.Errorf("%q answered %s", commands, answers)
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "desk.png")); err != nil || !strings.HasPrefix(string(picture), "\x89PNG") {
		t.Errorf("desk.png: %v", err)
	}
	var list struct{ Windows []struct{ Title string } }
	if s.ask(t, "/v1/desktop/windows", "", &list); len(list.Windows) < 2 {
		t.Errorf("windows: %v", list)
	}
	if strings.Contains(s.stderr.String(), "level=WARN") || strings.Contains(s.stderr.String(), "level=ERROR") {
		t.Errorf("stderr: %s", &s.stderr)
	}
}
