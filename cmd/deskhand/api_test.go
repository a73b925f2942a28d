package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// api runs "deskhand api" against the server.
func (s *server) api(t *testing.T, args ...string) result {
	t.Helper()
	return runCommandLine(t, append(environ(t), "DESKHAND_ENDPOINT="+s.base, "DESKHAND_TOKEN="+s.token), append([]string{"api"}, args...)...)
}

// wantAPI wants a command to succeed and decodes what it prints, if asked to.
func (s *server) wantAPI(t *testing.T, into any, args ...string) string {
	t.Helper()
	got := s.api(t, args...)
	if got.status != exitOK || got.stderr != "" {
		t.Fatalf("%q: %+v", args, got)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(got.stdout), into); err != nil {
			t.Fatalf("%q: %v: %s", args, err, got.stdout)
		}
	}
	return got.stdout
}

// TestAPIServer finds the server and its token by flags and environment.
func TestAPIServer(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(s.token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(s.base, "http://")
	endpoint, token := "DESKHAND_ENDPOINT="+s.base, "DESKHAND_TOKEN="+s.token
	for name, c := range map[string]struct {
		env, args []string
		status    int
		stderr    string
	}{
		"environment":       {[]string{endpoint, token}, nil, exitOK, ""},
		"other environment": {[]string{"SANDBOX_AGENT_ENDPOINT=" + address, "SANDBOX_AGENT_TOKEN_FILE=" + file}, nil, exitOK, ""},
		"flags":             {nil, []string{"-e", s.base, "-t", s.token}, exitOK, ""},
		"flags win":         {[]string{"DESKHAND_ENDPOINT=http://127.0.0.1:1", "DESKHAND_TOKEN=wrong"}, []string{"--endpoint=" + s.base + "/", "--token-file", file}, exitOK, ""},
		"printed URL":       {[]string{"DESKHAND_TOKEN=wrong"}, []string{"-e", s.base + "/?token=" + s.token}, exitOK, ""},
		"no token":          {[]string{endpoint, token}, []string{"-n"}, exitFailure, "Token Invalid: "},
		"nothing":           {[]string{endpoint}, nil, exitFailure, "DESKHAND_TOKEN"},
		"wrong":             {[]string{endpoint, token}, []string{"-t", "wrong"}, exitFailure, "(status 401)"},
		"no file":           {[]string{endpoint}, []string{"--token-file", file + "2"}, exitFailure, "token file: "},
		"no URL":            {nil, []string{"-e", "ftp://x"}, exitUsage, "--endpoint must be a URL such as http://127.0.0.1:2468"},
		"both":              {nil, []string{"-e", s.base, "-n", "-t", "x"}, exitUsage, "--no-token excludes"},
	} {
		for _, args := range [][]string{append([]string{"api", "health"}, c.args...), append(append([]string{"api"}, c.args...), "health")} {
			got := runCommandLine(t, append(environ(t), c.env...), args...)
			if got.status != c.status || !strings.Contains(got.stderr, c.stderr) || (got.stdout == "{\"status\":\"ok\"}\n") != (c.status == exitOK) {
				t.Errorf("%s: %q: %+v", name, args, got)
			}
		}
	}
	if got := runCommandLine(t, environ(t), "-t", s.token, "api", "-e", s.base, "health"); got.status != exitOK {
		t.Errorf("the token before the command: %+v", got)
	}
}

func TestAPIWithoutServer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	env := append(environ(t), "DESKHAND_ENDPOINT=http://"+ln.Addr().String())
	ln.Close()
	for name, c := range map[string]struct {
		args   []string
		status int
		stdout string
		stderr string
	}{
		"call":    {[]string{"health"}, exitFailure, "", "start one with 'deskhand server'"},
		"list":    {nil, exitOK, "desktop screenshot", ""},
		"help":    {[]string{"--help"}, exitOK, "Exit status: 0 success", ""},
		"of one":  {[]string{"desktop", "screenshot", "-h"}, exitOK, "Route: GET /v1/desktop/screenshot", ""},
		"unknown": {[]string{"desktop", "screensho"}, exitUsage, "", "there is no command 'desktop screensho'"},
		"flag":    {[]string{"desktop", "screenshot", "--scala", "1"}, exitUsage, "", "unknown flag: --scala\nTry 'deskhand api desktop screenshot --help'.\n"},
	} {
		got := runCommandLine(t, env, append([]string{"api"}, c.args...)...)
		if got.status != c.status || !strings.Contains(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) || (got.stdout == "") != (c.stdout == "") || (got.stderr == "") != (c.stderr == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAPIAgents calls agents with the commands and flags of sandbox-agent.
func TestAPIAgents(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	file := filepath.Join(t.TempDir(), "message.json")
	if err := os.WriteFile(file, []byte(`{"jsonrpc":"2.0","id":"one","method":"initialize","params":{"protocolVersion":1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var answer struct {
		ID     string
		Result struct{ ProtocolVersion int }
	}
	if s.wantAPI(t, &answer, "acp", "post", "--server-id", "a", "--agent", "mock", "--json-file", file); answer.ID != "one" || answer.Result.ProtocolVersion != 1 {
		t.Errorf("initialize: %+v", answer)
	}
	if s.wantAPI(t, &answer, "acp", "post", "--server-id", "a", "--json", `{"jsonrpc":"2.0","id":"two","method":"session/list","params":{}}`); answer.ID != "two" {
		t.Errorf("session/list: %+v", answer)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := exec.CommandContext(ctx, binary, "api", "acp", "stream", "--server-id", "a", "--last-event-id", "1")
	stream.Env = append(environ(t), "DESKHAND_ENDPOINT="+s.base, "DESKHAND_TOKEN="+s.token)
	out, err := stream.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, `"id":"two"`) {
		t.Errorf("the stream after the first event begins with %q, %v", line, err)
	}
	cancel()
	_ = stream.Wait() // it was ended
	if got := s.wantAPI(t, nil, "acp", "close", "--server-id", "a"); got != "" {
		t.Errorf("close: %q", got)
	}

	s.wantAPI(t, nil, "sessions", "create", "first", "--agent", "mock")
	s.wantAPI(t, nil, "sessions", "send-message", "first", "hello")
	var page struct{ Events []struct{ Type string } }
	if s.wantAPI(t, &page, "sessions", "get-messages", "first", "--limit", "1"); len(page.Events) != 1 || page.Events[0].Type != "session.started" {
		t.Errorf("get-messages: %+v", page)
	}
}

// TestAPIDesktop does with commands what people do on a desktop.
func TestAPIDesktop(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	s := serve(t, environ(t))
	if got := s.api(t, "desktop", "screenshot"); got.status != exitFailure || got.stdout != "" || !strings.Contains(got.stderr, "(status 409)") {
		t.Errorf("before the start: %+v", got)
	}
	s.wantAPI(t, nil, "desktop", "start", "--width", "640", "--height", "480")
	var launched struct{ WindowID string }
	s.wantAPI(t, &launched, "desktop", "launch", "--wait", "--", "xterm", "-geometry", "40x10+0+0")
	var moved struct{ X, Y int }
	if s.wantAPI(t, &moved, "desktop", "mouse", "move", "10", "20"); moved.X != 10 || moved.Y != 20 {
		t.Errorf("moved to %+v", moved)
	}
	var window struct{ ID string }
	if s.wantAPI(t, &window, "desktop", "windows", "focus", launched.WindowID); window.ID != launched.WindowID {
		t.Errorf("focused %+v, want %+v", window, launched)
	}
	file := filepath.Join(t.TempDir(), "desk.png")
	s.wantAPI(t, nil, "desktops", "screenshot", "main", "--scale", "0.5", "-o", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(bytes.NewReader(text)); err != nil || img.Bounds().Dx() != 320 || img.Bounds().Dy() != 240 {
		t.Errorf("%v, %v", img, err)
	}
	if piped := s.wantAPI(t, nil, "desktop", "screenshot", "--scale", "0.5"); !strings.HasPrefix(piped, "\x89PNG") {
		t.Errorf("through a pipe: %.20q", piped)
	}
	s.wantAPI(t, nil, "desktop", "clipboard", "set", "--data", "@"+file)
	if piped := s.wantAPI(t, nil, "desktop", "clipboard", "get", "--format", "png"); piped != string(text) {
		t.Errorf("the clipboard has %d bytes, want %d", len(piped), len(text))
	}
	if got := s.api(t, "desktop", "mouse", "click", "--", "-1", "0"); got.status != exitFailure || !strings.Contains(got.stderr, "must be non-negative") {
		t.Errorf("%+v", got)
	}
}

// TestAPIProcesses runs programs, follows what they print, and types into one.
func TestAPIProcesses(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	var ran struct {
		ExitCode int
		Stdout   string
	}
	s.wantAPI(t, &ran, "processes", "run", "--env", "A=b c", "--", "sh", "-c", `echo "$A"; exit 3`)
	if ran.ExitCode != 3 || ran.Stdout != "b c\n" {
		t.Errorf("%+v", ran)
	}
	var made struct{ ID string }
	s.wantAPI(t, &made, "processes", "create", "--", "sh", "-c", "echo one; read x; echo two $x")
	s.wantAPI(t, nil, "processes", "input", made.ID, "three\n", "--encoding", "utf8")
	if got := s.wantAPI(t, nil, "processes", "logs", made.ID, "--follow", "--decode"); got != "one\ntwo three\n" {
		t.Errorf("it printed %q", got)
	}
	if got := s.wantAPI(t, nil, "processes", "logs", made.ID, "--decode", "--tail", "1"); !strings.HasSuffix(got, "two three\n") {
		t.Errorf("the log's end is %q", got)
	}
	s.wantAPI(t, nil, "processes", "delete", made.ID)
	if got := s.api(t, "processes", "get", made.ID, "--raw"); got.status != exitFailure || !strings.Contains(got.stdout, `"resource":"process"`) {
		t.Errorf("%+v", got)
	}

	s.wantAPI(t, &made, "processes", "create", "--tty", "cat")
	cmd := exec.CommandContext(t.Context(), binary, "api", "processes", "terminal", made.ID)
	cmd.Env = append(environ(t), "DESKHAND_ENDPOINT="+s.base, "DESKHAND_TOKEN="+s.token)
	cmd.Stdin = strings.NewReader("hello\n\x04")
	if got := finish(t, cmd); got.status != exitOK || !strings.Contains(got.stdout, "hello\r\nhello\r\n") || got.stderr != "[ended with status 0]\n" {
		t.Errorf("the terminal: %+v", got)
	}
}

// TestAPIFiles moves files to the server and back.
func TestAPIFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	here, there := t.TempDir(), t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	source := filepath.Join(here, "source")
	if err := os.WriteFile(source, data, 0o600); err != nil {
		t.Fatal(err)
	}
	remote := filepath.Join(there, "new", "file")
	var written struct{ BytesWritten int }
	if s.wantAPI(t, &written, "fs", "file", "put", remote, "--data", "@"+source); written.BytesWritten != len(data) {
		t.Errorf("%+v", written)
	}
	back := filepath.Join(here, "back")
	s.wantAPI(t, nil, "fs", "file", "get", remote, "-o", back)
	wantFile(t, back, data)
	if piped := s.wantAPI(t, nil, "fs", "file", "get", remote, "--range", "bytes=0-3"); piped != "0123" {
		t.Errorf("a part is %q", piped)
	}
	s.resume(t, remote, here, data)

	s.wantAPI(t, nil, "fs", "move", "--from", remote, "--to", filepath.Join(there, "moved"))
	archive := filepath.Join(here, "all.tar.gz")
	s.wantAPI(t, nil, "fs", "archive", "--path", there, "--format", "tar.gz", "-o", archive)
	copied := filepath.Join(there, "copy")
	s.wantAPI(t, nil, "fs", "upload-batch", "--path", copied, "--data", "@"+archive)
	wantFile(t, filepath.Join(copied, "moved"), data)
	s.wantAPI(t, nil, "fs", "entry", "delete", copied, "--recursive")
	var entries []struct{ Name string }
	if s.wantAPI(t, &entries, "fs", "entries", "--path", there); fmt.Sprint(entries) != "[{moved} {new}]" {
		t.Errorf("left: %+v", entries)
	}
	if got := s.api(t, "fs", "file", "get", copied, "-o", back); got.status != exitFailure || !strings.Contains(got.stderr, "(status 404)") {
		t.Errorf("%+v", got)
	}
	wantFile(t, back, data)
	s.token = "wrong"
	for range 5 { // the reason is told, though the server does not read all
		if got := s.api(t, "fs", "file", "put", remote, "--data", "@"+source); got.status != exitFailure || !strings.Contains(got.stderr, "Token Invalid") {
			t.Errorf("%+v", got)
		}
	}
}

func wantFile(t *testing.T, file string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, want %d; %v", file, len(got), len(want), err)
	}
}

// resume goes on with a download that broke. Half of the file is there already,
// and marked, so that one can see that it was not sent again.
func (s *server) resume(t *testing.T, remote, dir string, data []byte) {
	t.Helper()
	head := s.wantAPI(t, nil, "HEAD", "/v1/fs/file?path="+url.QueryEscape(remote), "-i")
	_, after, _ := strings.Cut(head, "\nEtag: ")
	etag, _, _ := strings.Cut(after, "\n")
	marked := bytes.ReplaceAll(data[:len(data)/2], []byte("0"), []byte("x"))
	part := filepath.Join(dir, ".resumed."+base64.RawURLEncoding.EncodeToString([]byte(etag))+".part")
	if err := os.WriteFile(part, marked, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "resumed")
	s.wantAPI(t, nil, "fs", "file", "get", remote, "-o", file, "--resume")
	wantFile(t, file, append(marked, data[len(data)/2:]...))
	if _, err := os.Stat(part); err == nil {
		t.Errorf("%s is left", part)
	}
}

// TestAPIConfiguration keeps entries in a directory's files.
func TestAPIConfiguration(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	dir := t.TempDir()
	s.wantAPI(t, nil, "config", "mcp", "put", dir, "files", "--json", `{"type":"local","command":"npx","args":["-y","server"],"env":{"A":"1"}}`)
	var entry struct {
		Type, Command string
		Args          []string
		Env           map[string]string
	}
	s.wantAPI(t, &entry, "config", "mcp", "get", dir, "files")
	if got := fmt.Sprint(entry); got != "{local npx [-y server] map[A:1]}" {
		t.Errorf("%s", got)
	}
	s.wantAPI(t, nil, "config", "skills", "put", dir, "s", "--sources", `{"type":"github","source":"a/b"}`)
	s.wantAPI(t, nil, "config", "mcp", "delete", dir, "files")
	if got := s.api(t, "config", "mcp", "get", dir, "files"); got.status != exitFailure || !strings.Contains(got.stderr, "not found") {
		t.Errorf("%+v", got)
	}
}

// follower is a command that runs on.
type follower struct {
	cmd    *exec.Cmd
	stdout testlog.Buffer
	stderr testlog.Buffer
}

func (s *server) follow(t *testing.T, args ...string) *follower {
	t.Helper()
	f := &follower{cmd: exec.CommandContext(t.Context(), binary, append([]string{"api"}, args...)...)}
	f.cmd.Env = append(environ(t), "DESKHAND_ENDPOINT="+s.base)
	f.cmd.Stdout, f.cmd.Stderr = &f.stdout, &f.stderr
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestAPIEvents follows events until a signal, or until the server ends, with a
// token that the process list does not show.
func TestAPIEvents(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, environ(t), "--desktop", "--token", secret)
	s.token = secret
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, 0} {
		f := s.follow(t, "desktop", "events", "--token", secret)
		poll(t, callLimit, "an event", func() string {
			s.ask(t, "/v1/desktop/mouse/move", `{"x":1,"y":1}`, nil)
			line, _, ok := strings.Cut(f.stdout.String(), "\n")
			var e map[string]any
			if !ok || json.Unmarshal([]byte(line), &e) != nil || len(e) == 0 {
				return "only " + line
			}
			return ""
		})
		if shown := procFile(f.cmd.Process.Pid, "cmdline"); strings.Contains(shown, secret) || !strings.Contains(shown, "****") {
			t.Errorf("the process list shows %q", shown)
		}
		want := exitInterrupted
		if sig == 0 {
			want = exitOK
			s.signal(t, syscall.SIGTERM)
		} else if err := f.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = f.cmd.Wait() // ProcessState has it
		if got := f.cmd.ProcessState.ExitCode(); got != want || f.stderr.String() != "" {
			t.Errorf("after %v: status %d, want %d; stderr %q", sig, got, want, &f.stderr)
		}
	}
}

// TestAPIOnTerminal sits in front of a terminal.
func TestAPIOnTerminal(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	for line, want := range map[string]string{
		"health":               "{\r\n  \"status\": \"ok\"\r\n}\r\n",
		"/ui/main.js -i --raw": "HTTP/1.1 200 OK\r\n",
	} {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"api"}, strings.Fields(line)...)...)
		cmd.Env = append(environ(t), "DESKHAND_ENDPOINT="+s.base, "DESKHAND_TOKEN="+s.token)
		screen, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		var shown bytes.Buffer
		if err := screen.SetReadDeadline(time.Now().Add(callLimit)); err != nil {
			t.Fatal(err)
		}
		_, _ = shown.ReadFrom(screen) // ends with an error when the program has
		if err := cmd.Wait(); err != nil || !strings.HasPrefix(shown.String(), want) {
			t.Errorf("%s: %v, %.300q", line, err, shown.String())
		}
		screen.Close()
	}
}
