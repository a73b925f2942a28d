package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/testx11"
)

// limited serves with that many descriptors for the server.
func limited(t *testing.T, descriptors int, args ...string) *server {
	t.Helper()
	script := fmt.Sprintf("ulimit -Sn 200; ulimit -Hn %d; exec \"$0\" \"$@\"", descriptors)
	return serveAs(t, "/bin/sh", environ(t), append([]string{"-c", script, binary, "server", "--port", "0"}, args...)...)
}

// dialFrom opens a connection from a loopback address.
func dialFrom(ctx context.Context, s *server, from string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return d.DialContext(ctx, "tcp", strings.TrimPrefix(s.base, "http://"))
}

// flood opens n connections that send nothing, until the test ends.
func flood(t *testing.T, s *server, from string, n int) []net.Conn {
	t.Helper()
	list := make([]net.Conn, 0, n)
	t.Cleanup(func() {
		for _, c := range list {
			_ = c.Close()
		}
	})
	for range n {
		c, err := dialFrom(t.Context(), s, from)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(callLimit))
		list = append(list, c)
	}
	return list
}

// ping asks over a connection whether the server is ready.
func ping(c net.Conn) (resp *http.Response, body string, err error) {
	_ = c.SetDeadline(time.Now().Add(callLimit))
	_, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n") // one that is refused has its answer anyway
	resp, err = http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return new(http.Response), "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// TestIdleConnections opens more connections than the server has descriptors.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := limited(t, 600, "--max-connections-per-address", "290") // of 300
	s.ask(t, "/v1/desktop/start", `{}`, nil)
	s.ask(t, "/v1/desktop/recording/start", `{}`, nil)
	var sleeper struct{ ID string }
	s.ask(t, "/v1/processes", `{"command":"sleep","args":["600"]}`, &sleeper)
	var run struct{ Stdout string }
	if s.ask(t, "/v1/processes/run", `{"command":"sh","args":["-c","ulimit -Sn"]}`, &run); run.Stdout != "200\n" {
		t.Errorf("a process may have %q descriptors, want the 200 that the server was started with", run.Stdout)
	}

	list := flood(t, s, "127.0.0.9", 700)
	// A program can choose another loopback address, but stays on this machine.
	list = append(list, flood(t, s, "127.0.0.10", 1)...)
	resp, body, err := ping(list[len(list)-1])
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !resp.Close ||
		!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") || !strings.Contains(body, "from this machine: 290 are open") {
		t.Errorf("a connection too many: %+v, %q, %v", resp, body, err)
	}
	if resp, _, err = ping(list[0]); resp.StatusCode != http.StatusOK {
		t.Errorf("a connection from before: %d, %v", resp.StatusCode, err)
	}
	// The client that was there keeps its connection.
	var desk struct{ State string }
	if s.ask(t, "/v1/desktop/status", "", &desk); desk.State != "active" {
		t.Errorf("the desktop is %s", desk.State)
	}
	s.ask(t, "/v1/desktop/mouse/move", `{"x":5,"y":6}`, nil)
	var p struct{ Status string }
	if s.ask(t, "/v1/processes/"+sleeper.ID, "", &p); p.Status != "running" {
		t.Errorf("the process is %s", p.Status)
	}
	var rec struct{ Status string }
	if s.ask(t, "/v1/desktop/recording/stop", `{}`, &rec); rec.Status != "completed" {
		t.Errorf("the recording is %s", rec.Status)
	}
	for _, c := range list {
		_ = c.Close()
	}
	poll(t, callLimit, "there is room again", func() string {
		c, err := dialFrom(t.Context(), s, "127.0.0.9")
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		resp, body, err := ping(c)
		if resp.StatusCode == http.StatusOK {
			return ""
		}
		return fmt.Sprint(resp.StatusCode, body, err)
	})
	if n := strings.Count(s.stderr.String(), "\n"); n > 5 {
		t.Errorf("%d lines in the log:\n%s", n, &s.stderr)
	}
}

// TestNoDescriptors takes the descriptors away that the server still has.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	s := limited(t, 600)
	s.ask(t, "/v1/health", "", nil)
	var had unix.Rlimit
	low := unix.Rlimit{Cur: 3, Max: 600} // all that are open stay so
	if err := unix.Prlimit(s.pid, unix.RLIMIT_NOFILE, &low, &had); err != nil {
		t.Fatal(err)
	}
	waiting := flood(t, s, "127.0.0.9", 3)
	poll(t, callLimit, "it says that it has no descriptors", func() string {
		if text := s.stderr.String(); !strings.Contains(text, "too many open files") {
			return "stderr: " + text
		}
		return ""
	})
	s.ask(t, "/livez", "", nil) // over the connection that it has
	if err := unix.Prlimit(s.pid, unix.RLIMIT_NOFILE, &had, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range waiting {
		if resp, _, err := ping(c); resp.StatusCode != http.StatusOK {
			t.Errorf("a connection that waited: %d, %v", resp.StatusCode, err)
		}
	}
}
