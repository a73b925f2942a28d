package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestHealth asks for the server whose port it does not know.
func TestHealth(t *testing.T) {
	t.Parallel()
	env := environ(t, "TMPDIR="+t.TempDir(), "HTTP_PROXY=http://127.0.0.1:1")
	ask := func() result { return runCommandLine(t, env, "health") }
	if got := ask(); got.status != exitFailure || !strings.Contains(got.stderr, "no server of this user runs") {
		t.Errorf("without a server: %+v", got)
	}
	s := serve(t, env)
	if got := ask(); got.status != exitOK || got.stdout != "ok\n" {
		t.Errorf("while a server runs: %+v", got)
	}
	later := serve(t, env, "--state-dir", t.TempDir())
	s.signal(t, syscall.SIGTERM)
	if got := ask(); got.status != exitOK {
		t.Errorf("while the server runs that was started last: %+v", got)
	}
	later.signal(t, syscall.SIGKILL)
	if got := ask(); got.status != exitFailure || !strings.Contains(got.stderr, "connection refused") {
		t.Errorf("after the server was killed: %+v", got)
	}
}

// TestHealthOfOthers puts files that other users could make where a server publishes its address.
func TestHealthOfOthers(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	alive := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer alive.Close()
	dir := filepath.Join(temp, "deskhand-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	address := filepath.Join(dir, "address")
	fails := func(want string) {
		t.Helper()
		if got := runCommandLine(t, environ(t, "TMPDIR="+temp), "health"); got.status != exitFailure || !strings.Contains(got.stderr, want) {
			t.Errorf("%+v, want an error with %q", got, want)
		}
	}
	if err := syscall.Mkfifo(address, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(address + " is not a regular file")
	if err := os.Remove(address); err != nil {
		t.Fatal(err)
	}
	writeFile(t, address, alive.URL+"/\n", 0o600)
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as another user's could be
		t.Fatal(err)
	}
	fails(dir + " is not this user's own")
	if os.Geteuid() != 0 {
		return
	}
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	fails(dir + " is not this user's own")
}

// TestUnusableHome is a server in a container that runs as a user without a home.
func TestUnusableHome(t *testing.T) {
	t.Parallel()
	temp, state := t.TempDir(), t.TempDir()
	file := writeFile(t, filepath.Join(t.TempDir(), "file"), "", 0o600) // below it, even root makes no directory
	s := serve(t, environ(t, "HOME="+file, "XDG_STATE_HOME="+state, "TMPDIR="+temp))
	var got struct{ Stdout string }
	s.ask(t, "/v1/processes/run", `{"command":"sh","args":["-c","cd && pwd && touch file && ls"]}`, &got)
	home := filepath.Join(temp, "deskhand-"+strconv.Itoa(os.Geteuid()), "home")
	if want := home + "\nfile\n"; got.Stdout != want {
		t.Errorf("a program writes %q, want %q", got.Stdout, want)
	}
	if !strings.Contains(s.stderr.String(), home) {
		t.Errorf("the log does not name the home: %s", &s.stderr)
	}
}

// TestEmptyStateOfAnotherUser is a server in deskhand's image with another user
// number of the same group.
func TestEmptyStateOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	env := environ(t, "XDG_STATE_HOME=")
	state := filepath.Join(strings.TrimPrefix(home(env), "HOME="), ".local", "state", "deskhand")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(state, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	serve(t, env)
}
