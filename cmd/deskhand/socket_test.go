package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asService makes a command line that starts the server as systemd does: with
// sockets from file descriptor 3 on, and their number in the environment.
func asService(t *testing.T, count string, socket *os.File, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ LISTEN_FDS=$0 LISTEN_FDNAMES=deskhand exec "$@"`, count, binary, "server"}, args...)...)
	cmd.Env = environ(t)
	cmd.ExtraFiles = []*os.File{socket}
	return cmd
}

// openSocket returns a listener and its file descriptor, which are open until the test
// ends.
func openSocket(t *testing.T, network, address string) (net.Listener, *os.File) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	socket, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return ln, socket
}

// TestSocketActivation serves a socket that was open before the server started,
// with the token from standard input, and keeps both from its children.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	ln, socket := openSocket(t, "tcp", "127.0.0.1:0")
	base := "http://" + ln.Addr().String()
	early := make(chan error, 1) // a client that connects before there is a server
	go func() {
		res, err := http.Get(base + "/livez")
		if err == nil {
			err = res.Body.Close()
		}
		early <- err
	}()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-secret-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := asService(t, "1", socket, "--host", "192.0.2.1", "--token-file", "-")
	stdin, err := os.Open(token)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	cmd.Stdin = stdin
	s := serveCommand(t, cmd)
	s.token = "a-secret-token"
	if s.base != base {
		t.Errorf("it serves %s, not %s", s.base, base)
	}
	if err := <-early; err != nil {
		t.Errorf("the early client: %v", err)
	}
	var run struct{ Stdout string }
	s.ask(t, "/v1/processes/run", `{"command":"sh","args":["-c","env | grep ^LISTEN_; ls -l /proc/self/fd"]}`, &run)
	for _, leaked := range []string{"LISTEN_", "socket:", token} {
		if strings.Contains(run.Stdout, leaked) {
			t.Errorf("a child has %s:\n%s", leaked, run.Stdout)
		}
	}
}

func TestSocketErrors(t *testing.T) {
	t.Parallel()
	_, socket := openSocket(t, "unix", filepath.Join(t.TempDir(), "socket"))
	for count, want := range map[string]string{"1": "write ListenStream=127.0.0.1:2468 in the socket unit", "2": "systemd passed 2 sockets, and deskhand serves one"} {
		if got := finish(t, asService(t, count, socket)); got.status != exitFailure || !strings.Contains(got.stderr, want) {
			t.Errorf("%s sockets: %+v, want %q", count, got, want)
		}
	}
}

// TestEntrySocket serves the address of the flags, not the one that a container's
// first program opened by mistake.
func TestEntrySocket(t *testing.T) {
	t.Parallel()
	ln, socket := openSocket(t, "tcp", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for wanted, same := range map[string]bool{port: true, "0": false} {
		cmd := asService(t, "1", socket, "--port", wanted)
		cmd.Args[2] = strings.Replace(cmd.Args[2], "LISTEN_FDNAMES=deskhand", "LISTEN_FDNAMES="+entryName, 1)
		s := serveCommand(t, cmd)
		if got := s.base == "http://"+ln.Addr().String(); got != same {
			t.Errorf("--port %s: it serves %s, and the socket is %s", wanted, s.base, ln.Addr())
		}
	}
}
