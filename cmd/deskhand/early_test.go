package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestListenFirst connects to a server that cannot get ready yet, because nothing
// reads the pipe that is its log. The request is answered when it is ready.
func TestListenFirst(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.CommandContext(t.Context(), binary, "server", "--no-token", "--port", port, "--log-file", pipe)
	cmd.Env = environ(t)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var c net.Conn
	poll(t, readyLimit, "the port is open", func() string {
		if c, err = net.Dial("tcp", address); err != nil {
			return err.Error()
		}
		return ""
	})
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(readyLimit))
	if _, err := io.WriteString(c, "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	log, err := os.Open(pipe) // waits until the server opens it
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("a request that came before the server was ready: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a request that came before the server was ready: %s", resp.Status)
	}
	_ = cmd.Cancel()
	_ = cmd.Wait()
}

var initTrace = regexp.MustCompile(`init (github.com/deskhand/\S+) .* (\d+) bytes`)

// TestInit bounds what this module's packages do before main runs, which is before
// the server listens.
func TestInit(t *testing.T) {
	t.Parallel()
	r := runCommandLine(t, environ(t, "GODEBUG=inittrace=1"), "version")
	all := initTrace.FindAllStringSubmatch(r.stderr, -1)
	if len(all) < 5 {
		t.Fatalf("traced: %s", r.stderr)
	}
	for _, m := range all {
		const most = 256 << 10
		if n, _ := strconv.Atoi(m[2]); n > most {
			t.Errorf("package %s allocates %d bytes when it is initialized, want at most %d", strings.TrimPrefix(m[1], "github.com/deskhand/deskhand/"), n, most)
		}
	}
}
