package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// daemonTest is a port and an environment for a server in the background, which
// ends with the test.
type daemonTest struct {
	*daemon
	env  []string
	port string
}

func newDaemonTest(t *testing.T) *daemonTest {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	d := &daemonTest{
		daemon: newDaemon(filepath.Join(data, "deskhand", "daemon"), "127.0.0.1", uint16(port)),
		env:    append(environ(t), "XDG_DATA_HOME="+data), port: strconv.Itoa(port),
	}
	t.Cleanup(func() {
		if err := d.end(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *daemonTest) run(t *testing.T, args ...string) result {
	t.Helper()
	return runCommandLine(t, d.env, append([]string{"daemon"}, append(args, "--port", d.port)...)...)
}

func (d *daemonTest) want(t *testing.T, status int, text string, args ...string) result {
	t.Helper()
	got := d.run(t, args...)
	if got.status != status || !strings.Contains(got.stdout+got.stderr, text) {
		t.Fatalf("daemon %q: %+v, want %d and %q", args, got, status, text)
	}
	return got
}

var daemonLine = regexp.MustCompile(`at (http://127\.0\.0\.1:\d+/)\?token=(\w+), as process (\d+);`)

func TestDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemonTest(t)
	d.want(t, exitFailure, "no daemon runs at 127.0.0.1:"+d.port, "status")
	d.want(t, exitOK, "no daemon runs", "stop")

	started := d.want(t, exitOK, "runs in the background", "start")
	m := daemonLine.FindStringSubmatch(started.stdout)
	if m == nil || m[3] != strconv.Itoa(d.pid()) {
		t.Fatalf("start: %+v", started)
	}
	if got := runCommandLine(t, environ(t), "api", "health", "-e", m[1], "-t", m[2]); got.status != exitOK {
		t.Errorf("health: %+v", got)
	}
	for name, file := range map[string]string{"pid": d.pidFile, "version": d.versionFile, "log": d.log} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || filepath.Base(file) != fmt.Sprintf("daemon-127.0.0.1-%s.%s", d.port, name) {
			t.Errorf("%s: %v", file, err)
		}
	}
	pid := d.pid()
	d.want(t, exitOK, "version v1.2.3-test runs", "status")
	d.want(t, exitOK, fmt.Sprintf("as process %d;", pid), "start") // the same one
	d.want(t, exitOK, fmt.Sprintf("as process %d;", pid), "start", "--upgrade")

	// Another version is left alone unless it is to be replaced.
	writeFile(t, d.versionFile, "v1.0.0\n", 0o600)
	d.want(t, exitOK, "daemon start --upgrade' replaces it", "start")
	d.want(t, exitOK, "replacing version v1.0.0 with version v1.2.3-test", "start", "--upgrade")
	if d.pid() == pid || alive(t, pid) || d.version() != "v1.2.3-test" {
		t.Errorf("after the upgrade: %d, was %d; version %s", d.pid(), pid, d.version())
	}
	pid = d.pid()
	d.want(t, exitOK, fmt.Sprintf("process %d has ended", pid), "stop")
	if alive(t, pid) || d.running() {
		t.Error("it still runs")
	}
	d.want(t, exitFailure, "no daemon runs", "status")
	if _, err := os.Stat(d.pidFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left", d.pidFile)
	}
}

// alive reports whether a process runs. A zombie does not.
func alive(tb testing.TB, pid int) bool {
	tb.Helper()
	all, _ := snapshot(tb)
	_, runs := all[pid]
	return runs
}

// TestDaemonIsTheOneThatHoldsTheLock writes the id of another process to the file.
func TestDaemonIsTheOneThatHoldsTheLock(t *testing.T) {
	t.Parallel()
	d := newDaemonTest(t)
	// A daemon that was killed leaves its number, which is used again.
	writeFile(t, d.pidFile, strconv.Itoa(os.Getpid())+"\n", 0o600)
	d.want(t, exitFailure, "no daemon runs", "status")
	d.want(t, exitOK, "no daemon runs", "stop")

	d.want(t, exitOK, "runs in the background", "start")
	pid := d.pid()
	writeFile(t, d.pidFile, strconv.Itoa(os.Getpid())+"\n", 0o600)
	d.want(t, exitFailure, "does not lock", "stop")
	writeFile(t, d.pidFile, "", 0o600)
	d.want(t, exitFailure, "does not hold the id", "stop")
	writeFile(t, d.pidFile, strconv.Itoa(pid), 0o600)

	// After SIGKILL it counts as ended, and another starts.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll(t, readyLimit, "it has ended", func() string {
		if d.running() {
			return "the lock is held"
		}
		return ""
	})
	d.want(t, exitFailure, "no daemon runs", "status")
	d.want(t, exitOK, "runs in the background", "start", "--token", "secret")
	if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.pid())); err != nil || strings.Contains(string(cmdline), "secret") {
		t.Errorf("command line: %q, %v", cmdline, err)
	}
	d.want(t, exitOK, "has ended", "stop")
}

// TestDaemonReadyLine reads a log while it is written.
func TestDaemonReadyLine(t *testing.T) {
	t.Parallel()
	d := newDaemon(t.TempDir(), "127.0.0.1", 1)
	text, want := "something else\n"+readyPrefix+"http://127.0.0.1:1/?token=abc", ""
	for range 2 {
		writeFile(t, d.log, text, 0o600)
		if got := d.readyAt(); got != want {
			t.Errorf("%q is ready at %q, want %q", text, got, want)
		}
		text, want = text+"\n", "http://127.0.0.1:1/?token=abc"
	}
	writeFile(t, d.log, `{"msg":"x","url":"y"}`+"\n"+`{"time":"t","level":"INFO","msg":"`+readyMessage+`","url":"http://127.0.0.1:2/"}`+"\n", 0o600)
	if got, want := d.readyAt(), "http://127.0.0.1:2/"; got != want {
		t.Errorf("ready at %q, want %q", got, want)
	}
}

func TestDaemonFails(t *testing.T) {
	t.Parallel()
	d := newDaemonTest(t)
	ln, err := net.Listen("tcp", "127.0.0.1:"+d.port)
	if err != nil {
		t.Skip(err) // another program has taken it
	}
	defer ln.Close()
	d.want(t, exitFailure, "address already in use", "start")
	if d.running() {
		t.Error("something runs")
	}
	got := runCommandLine(t, d.env, "daemon", "start", "-p", d.port, "--", "--no-such-flag")
	if got.status != exitFailure || !strings.Contains(got.stderr, "--no-such-flag") || strings.Contains(got.stderr, "no such process") {
		t.Errorf("a flag of the server: %+v", got)
	}
	for _, c := range []struct{ args, text string }{
		{"", "daemon what?"}, {"restart", `no command "restart"`}, {"stop now", "takes no argument"}, {"start --port 0", "from 1 to 65535"},
	} {
		got := runCommandLine(t, d.env, append([]string{"daemon"}, strings.Fields(c.args)...)...)
		if got.status != exitUsage || !strings.Contains(got.stderr, c.text) {
			t.Errorf("%q: %+v", c.args, got)
		}
	}
	if got := runCommandLine(t, []string{"PATH=/"}, "daemon", "status"); got.status != exitFailure || !strings.Contains(got.stderr, "no home directory") {
		t.Errorf("without a home: %+v", got)
	}
}
