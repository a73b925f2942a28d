package main

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

const secret = "secret-of-the-test"

// TestHiddenToken wants the token neither in the process list, nor in what
// desktops' programs are given, nor in logs and other files.
func TestHiddenToken(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm", "ffmpeg")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(environ(t), "DESKHAND_TOKEN="+secret, "SANDBOX_AGENT_TOKEN="+secret, "DESKHAND_TOKEN_FILE="+file,
		"TURN_PASSWORD="+secret, "OTEL_EXPORTER_OTLP_HEADERS=key="+secret)
	s := serve(t, env, "--desktop", "--access-log", "--log-level", "debug",
		"--ice-server", "turn:127.0.0.1:9,user,env:TURN_PASSWORD", "--otlp-endpoint", "http://127.0.0.1:9")
	s.token = secret
	if status, answer := s.call(t, "/v1/desktop/recordings", "{}"); status != http.StatusCreated {
		t.Fatalf("recording: %d: %s", status, answer)
	}
	s.ask(t, "/v1/desktop/launch", launchTerminal, nil)
	s.call(t, "/v1/desktop/events/nowhere?access_token="+secret+"&token="+secret, "")
	s.call(t, "/?token="+secret, "")
	seen, encoders := 0, 0
	for _, p := range descendants(t, s.pid) {
		environment := procFile(p.pid, "environ")
		if strings.Contains(environment, "DISPLAY=") {
			seen++
		}
		if p.name == "ffmpeg" {
			encoders++
		}
		if strings.Contains(environment+procFile(p.pid, "cmdline"), secret) {
			t.Errorf("%s has the token", p.name)
		}
	}
	if seen < 2 || encoders == 0 {
		t.Errorf("only %d programs with an environment found, and %d encoders", seen, encoders)
	}
	s.signal(t, 15)
	if log := s.stderr.String(); strings.Contains(log, secret) || !strings.Contains(log, "REDACTED") {
		t.Errorf("log:\n%s", log)
	}
	if strings.Contains(s.stdout.String(), secret) {
		t.Errorf("stdout:\n%s", &s.stdout)
	}
	dir := strings.TrimPrefix(home(env), "HOME=")
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			t.Errorf("%s has the token", path)
		}
		return err
	})
	if err != nil || files < 2 {
		t.Errorf("%d files in %s: %v", files, dir, err)
	}
}

// TestHiddenArgument wants a token that was given on the command line to be
// gone from there once the server runs.
func TestHiddenArgument(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"server", "--token", secret},
		{"server", "--token=" + secret},
		{"server", "-t", secret},
		{"server", "-Ct" + secret},
		{"-t", secret, "server"},
		{"--token=" + secret, "server"},
	} {
		s := serveAs(t, binary, environ(t), append(args, "--host", "127.0.0.1", "--port", "0")...)
		shown := procFile(s.pid, "cmdline")
		if strings.Contains(shown, secret) || !strings.Contains(shown, "****") || !strings.Contains(shown, "127.0.0.1") {
			t.Errorf("%q: the process list shows %q", args, shown)
		}
		s.token = secret
		s.ask(t, "/v1/health", "", nil)
	}
	// A token that also ends other arguments must not change what these mean.
	s := serveAs(t, binary, environ(t), "server", "--host", "127.0.0.1", "--port", "0", "--token", "1", "-O", "https://a.example:1")
	if s.token = "1"; !strings.HasPrefix(s.base, "http://127.0.0.1:") {
		t.Errorf("it listens at %s", s.base)
	}
	s.ask(t, "/v1/health", "", nil)
}
