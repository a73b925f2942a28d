package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/testlog"
)

// binary is the command under test, built once by TestMain.
var binary string

func TestMain(m *testing.M) {
	if errno := os.Getenv(confined); errno != "" {
		fmt.Fprintln(os.Stderr, confine(errno))
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "deskhand-cmd-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // another user runs it too
	}
	if err == nil {
		binary = filepath.Join(dir, "deskhand")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.version=v1.2.3-test", "-o", binary, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(dir)
		os.Exit(status)
	}))
}

const (
	readyLimit = 60 * time.Second // for what a busy machine takes long for
	callLimit  = 60 * time.Second
	stopLimit  = 5 * time.Second // from a signal to the end
)

// environ returns an environment for one test, with the entries of set.
func environ(tb testing.TB, set ...string) []string {
	tb.Helper()
	dir := tb.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + dir, "XDG_STATE_HOME=" + filepath.Join(dir, "state")}
	return append(env, set...)
}

// home returns the HOME entry of an environment. The HOME of desktops' programs
// begins with it.
func home(env []string) string {
	return env[slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "HOME=") })]
}

// result is the outcome of a command.
type result struct {
	status         int
	stdout, stderr string
}

// runCommandLine runs the binary to its end.
func runCommandLine(tb testing.TB, env []string, args ...string) result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), readyLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = env
	return finish(tb, cmd)
}

func finish(tb testing.TB, cmd *exec.Cmd) result {
	tb.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tb.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// server is a running server.
type server struct {
	base   string // http://127.0.0.1:1234
	token  string // for calls, or empty
	pid    int
	stdout testlog.Buffer
	stderr testlog.Buffer
	ended  chan struct{}    // closed when it has
	state  *os.ProcessState // read after ended
	client *http.Client
}

var ready = regexp.MustCompile(`deskhand is ready(?: at |","url":")(http://[^/\s]+)/(?:\?token=(\w+))?"?}?\n`)

// serve runs a server on a free port until the test ends.
func serve(tb testing.TB, env []string, args ...string) *server {
	tb.Helper()
	return serveAs(tb, binary, env, append([]string{"server", "--port", "0"}, args...)...)
}

func serveAs(tb testing.TB, program string, env []string, args ...string) *server {
	tb.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = env
	return serveCommand(tb, cmd)
}

func serveCommand(tb testing.TB, cmd *exec.Cmd) *server {
	tb.Helper()
	s := &server{ended: make(chan struct{}), client: &http.Client{Transport: &http.Transport{}, Timeout: callLimit}}
	cmd.Stdout, cmd.Stderr = &s.stdout, &s.stderr
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // ProcessState has it
		s.state = cmd.ProcessState
		close(s.ended)
	}()
	tb.Cleanup(func() {
		s.client.CloseIdleConnections()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.ended:
		case <-time.After(readyLimit):
			tb.Errorf("the server does not end")
			_ = cmd.Process.Kill()
			<-s.ended
		}
		if tb.Failed() {
			tb.Logf("stdout:\n%s\nstderr:\n%s", &s.stdout, &s.stderr)
		}
	})
	poll(tb, readyLimit, "the server is ready", func() string {
		select {
		case <-s.ended:
			tb.Fatalf("it ended: %v\n%s", s.state, &s.stderr)
		default:
		}
		if m := ready.FindStringSubmatch(s.stdout.String()); m != nil {
			s.base, s.token = m[1], m[2]
			return ""
		}
		return "stdout: " + s.stdout.String()
	})
	return s
}

// signal sends a signal and returns how long the server lived on.
func (s *server) signal(tb testing.TB, sig syscall.Signal) time.Duration {
	tb.Helper()
	begun := time.Now()
	if err := syscall.Kill(s.pid, sig); err != nil {
		tb.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(readyLimit):
		tb.Fatalf("still running %v after %v", readyLimit, sig)
	}
	return time.Since(begun)
}

// call sends a request; a body makes it a POST.
func (s *server) call(tb testing.TB, path, body string) (status int, answer []byte) {
	tb.Helper()
	method, r := http.MethodGet, io.Reader(nil)
	if body != "" {
		method, r = http.MethodPost, strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(tb.Context(), method, s.base+path, r)
	if err != nil {
		tb.Fatal(err)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return res.StatusCode, answer
}

// ask wants status 200, and decodes the answer into into unless that is nil.
func (s *server) ask(tb testing.TB, path, body string, into any) {
	tb.Helper()
	status, answer := s.call(tb, path, body)
	if status != http.StatusOK {
		tb.Fatalf("%s: %d: %s", path, status, answer)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(answer, into); err != nil {
		tb.Fatalf("%s: %v: %s", path, err, answer)
	}
}

// poll asks until there is no complaint, and fails with the last one.
func poll(tb testing.TB, limit time.Duration, what string, complaint func() string) {
	tb.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for {
		why := complaint()
		if why == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatalf("not within %v: %s: %s", limit, what, why)
		}
	}
}
