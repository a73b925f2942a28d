package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/internal/testx11"
)

var update = flag.Bool("update", false, "write the golden files")

// TestHelp keeps the help of all commands in one file, for reviewers.
func TestHelp(t *testing.T) {
	t.Parallel()
	const golden = "testdata/help.txt"
	lines := [][]string{{"--help"}}
	for _, c := range listedCommands() {
		if c.name != "help" {
			lines = append(lines, append(strings.Fields(c.name), "--help"))
		}
	}
	lines = append(lines, []string{"credentials", "extract", "--help"}, []string{"credentials", "extract-env", "--help"})
	var sheet strings.Builder
	for _, args := range lines {
		got := runCommandLine(t, environ(t), args...)
		if got.status != exitOK || got.stderr != "" {
			t.Errorf("%q: status %d, stderr %q", args, got.status, got.stderr)
		}
		fmt.Fprintf(&sheet, "$ deskhand %s\n%s\n", strings.Join(args, " "), got.stdout)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(sheet.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), sheet.String()); diff != "" {
		t.Errorf("the help has changed (-update accepts it):\n%s", diff)
	}
	for _, args := range [][]string{{"help"}, {"-h"}} {
		if got, want := runCommandLine(t, environ(t), args...), runCommandLine(t, environ(t), "--help"); got != want {
			t.Errorf("%q: %+v, --help: %+v", args, got, want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--version"}, {"-V"}} {
		want := result{exitOK, "deskhand v1.2.3-test\n", ""}
		if got := runCommandLine(t, environ(t), args...); got != want {
			t.Errorf("%q: %+v, want %+v", args, got, want)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", "secret\n")
	for _, c := range []struct {
		args   []string
		env    string
		status int
		want   string // what standard error says
		help   string // which help it points at
	}{
		{nil, "", exitUsage, "a command is missing", "deskhand --help"},
		{[]string{"serve"}, "", exitUsage, `no command "serve"`, "deskhand --help"},
		{[]string{"--bogus", "server"}, "", exitUsage, "--bogus", "deskhand --help"},
		{[]string{"server", "--bogus"}, "", exitUsage, "--bogus", "deskhand server --help"},
		{[]string{"server", "now"}, "", exitUsage, `"now"`, "deskhand server --help"},
		{[]string{"server", "--port"}, "", exitUsage, "--port", "deskhand server --help"},
		{[]string{"server", "--port", "http"}, "", exitUsage, `--port must be a number from 0 to 65535, not "http"`, ""},
		{[]string{"server", "-p", "65536"}, "", exitUsage, `--port must be a number from 0 to 65535, not "65536"`, ""},
		{[]string{"server", "-p", "-1"}, "", exitUsage, `--port must be a number from 0 to 65535, not "-1"`, ""},
		{[]string{"server"}, "DESKHAND_PORT=http", exitUsage, `PORT of the environment must be a number from 0 to 65535, not "http"`, ""},
		{[]string{"server", "--no-token=maybe"}, "", exitUsage, `--no-token must be true or false, not "maybe"`, ""},
		{[]string{"server", "--no-token", "--token", "x"}, "", exitUsage, "--no-token excludes --token", ""},
		{[]string{"server", "--no-token", "--token-file", good}, "", exitUsage, "--no-token excludes --token", ""},
		{[]string{"-n", "server", "--token", "x"}, "", exitUsage, "--no-token excludes --token", ""},
		{[]string{"server", "--no-token", "--agent-user", "www-data"}, "", exitUsage, "--no-token excludes --agent-user", ""},
		{[]string{"-n", "server", "--desktop-user", "www-data"}, "", exitUsage, "--no-token excludes --agent-user and --desktop-user", ""},
		{[]string{"server", "--token", "x", "--token-file", good}, "", exitUsage, "--token excludes --token-file", ""},
		{[]string{"server", "--token", ""}, "", exitUsage, "--token is empty", ""},
		{[]string{"server", "--token", " x"}, "", exitUsage, "white space", ""},
		{[]string{"server", "--token-file", filepath.Join(dir, "none")}, "", exitFailure, "none: no such file", ""},
		{[]string{"server", "--token-file", file("empty", "\n")}, "", exitFailure, "must hold one line", ""},
		{[]string{"server", "--token-file", file("two", "a\nb\n")}, "", exitFailure, "must hold one line", ""},
		{[]string{"server", "-O", "example.com"}, "", exitUsage, `"example.com" must be * or a scheme and host`, ""},
		{[]string{"server", "--env-policy", "none"}, "", exitUsage, `--env-policy must be inherit or clean, not "none"`, ""},
		{[]string{"server", "--log-level", "loud"}, "", exitUsage, `--log-level must be debug, info, warn or error, not "loud"`, ""},
		{[]string{"server", "--log-format", "xml"}, "", exitUsage, `--log-format must be text or json, not "xml"`, ""},
		{[]string{"server", "--log-file", filepath.Join(dir, "none", "log")}, "", exitFailure, "log file: ", ""},
		{[]string{"server", "--state-dir", filepath.Join(good, "below"), "-p", "0"}, "", exitFailure, "state directory: ", ""},
		{[]string{"server", "--fs-root", filepath.Join(dir, "none")}, "", exitUsage, "root: path not found", ""},
		{[]string{"server", "--fs-root", good}, "", exitUsage, "not a directory", ""},
		{[]string{"server", "--fs-root", "=" + dir}, "", exitUsage, "has no name before the =", ""},
		{[]string{"server", "--fs-root", "x="}, "", exitUsage, "names no directory", ""},
		{[]string{"server", "--fs-root", dir, "--fs-root", dir}, "", exitUsage, "same name", ""},
		{[]string{"server", "--max-upload-bytes", "-1"}, "", exitUsage, "--max-upload-bytes must not be negative", ""},
		{[]string{"server", "--max-upload-bytes", "1G"}, "", exitUsage, `--max-upload-bytes must be a whole number, not "1G"`, ""},
		{[]string{"server", "--max-desktops", "0"}, "", exitUsage, "--max-desktops must be at least 1, not 0", ""},
		{[]string{"server", "--max-desktops", "-1"}, "", exitUsage, "--max-desktops must be at least 1, not -1", ""},
		{[]string{"server", "--max-desktops", "many"}, "", exitUsage, `--max-desktops must be a whole number, not "many"`, ""},
		{[]string{"server", "--max-viewers", "0"}, "", exitUsage, "--max-viewers must be at least 1, not 0", ""},
		{[]string{"server", "--max-sessions", "-1"}, "", exitUsage, "--max-sessions and --min-memory must not be negative", ""},
		{[]string{"server", "--desktop-idle-stop", "-1s"}, "", exitUsage, "--desktop-idle-stop must not be negative", ""},
		{[]string{"server", "--host", "192.0.2.1", "-p", "0"}, "", exitFailure, "192.0.2.1", ""},
		{[]string{"version", "1"}, "", exitUsage, `"1"`, "deskhand version --help"},
		{[]string{"install"}, "", exitUsage, "install what? There is: install desktop", ""},
		{[]string{"install", "desktop", "all"}, "", exitUsage, "install what?", "deskhand install desktop --help"},
		{[]string{"install", "desktop", "--package-manager", "pacman"}, "", exitUsage, `must be apt, dnf or apk, not "pacman"`, ""},
	} {
		got := runCommandLine(t, append(environ(t), c.env), c.args...)
		if got.status != c.status || got.stdout != "" || !strings.HasPrefix(got.stderr, "deskhand: ") || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%q: %+v; want status %d and %q", c.args, got, c.status, c.want)
		}
		if hint := "Try '" + c.help; c.help != "" && !strings.Contains(got.stderr, hint) {
			t.Errorf("%q: %q does not point at %s", c.args, got.stderr, c.help)
		}
		if n := strings.Count(got.stderr, "\n"); n > 2 {
			t.Errorf("%q: %d lines for one mistake:\n%s", c.args, n, got.stderr)
		}
	}
}

// TestToken wants each way to give a token to be heard, the nearer one first.
func TestToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	everything := []string{"DESKHAND_TOKEN=deskhand", "SANDBOX_AGENT_TOKEN=agent", "SANDBOX_AGENT_TOKEN_FILE=" + file}
	for name, c := range map[string]struct {
		env  []string
		args []string
		want string // empty: none is needed
	}{
		"long flag":           {everything, []string{"server", "--token", "flag"}, "flag"},
		"short flag":          {everything, []string{"server", "-tflag"}, "flag"},
		"before the command":  {everything, []string{"--token=flag", "server"}, "flag"},
		"flag file":           {everything, []string{"server", "--token-file", file}, "of-the-file"},
		"no token":            {everything, []string{"server", "--no-token"}, ""},
		"no token, before":    {everything, []string{"-n", "server"}, ""},
		"own variable":        {everything, []string{"server"}, "deskhand"},
		"own file's variable": {append([]string{"DESKHAND_TOKEN_FILE=" + file}, everything[1:]...), []string{"server"}, "of-the-file"},
		"other variable":      {everything[1:], []string{"server"}, "agent"},
		"other file":          {everything[2:], []string{"server"}, "of-the-file"},
		"telemetry":           {everything, []string{"--no-telemetry", "server", "--no-telemetry", "-t", "flag"}, "flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveAs(t, binary, append(environ(t), c.env...), append(c.args, "-p", "0")...)
			if s.token != "" {
				t.Errorf("it shows a token that its user knows:\n%s", &s.stdout)
			}
			if status, _ := s.call(t, "/v1/health", ""); (status == http.StatusOK) != (c.want == "") {
				t.Errorf("without a token: %d", status)
			}
			s.token = "wrong"
			if status, _ := s.call(t, "/v1/health", ""); (status == http.StatusOK) != (c.want == "") {
				t.Errorf("with a wrong token: %d", status)
			}
			s.token = c.want
			s.ask(t, "/v1/health", "", nil)
		})
	}
	t.Run("made", func(t *testing.T) {
		t.Parallel()
		a, b := serve(t, environ(t)), serve(t, environ(t))
		if len(a.token) < 20 || a.token == b.token {
			t.Errorf("tokens %q and %q", a.token, b.token)
		}
		a.ask(t, "/v1/health", "", nil)
		a.token = b.token
		if status, _ := a.call(t, "/v1/health", ""); status != http.StatusUnauthorized {
			t.Errorf("with another server's token: %d", status)
		}
	})
}

// TestMaxDesktops: the desktop main counts, running or not.
func TestMaxDesktops(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t), "--max-desktops", "1")
	status, answer := s.call(t, "/v1/desktops", "{}")
	if status != http.StatusConflict || !strings.Contains(string(answer), "this server allows 1") || !strings.Contains(string(answer), "--max-desktops") {
		t.Errorf("a second desktop: %d %s", status, answer)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		args []string
		host string // of the URL
	}{
		"default":        {[]string{"DESKHAND_PORT=0"}, nil, "127.0.0.1"},
		"own variables":  {[]string{"DESKHAND_HOST=127.0.0.2", "DESKHAND_PORT=0", "SANDBOX_AGENT_HOST=127.0.0.3", "SANDBOX_AGENT_PORT=x"}, nil, "127.0.0.2"},
		"others":         {[]string{"SANDBOX_AGENT_HOST=127.0.0.3", "SANDBOX_AGENT_PORT=0"}, nil, "127.0.0.3"},
		"flags":          {[]string{"DESKHAND_HOST=127.0.0.2", "DESKHAND_PORT=x"}, []string{"-H", "127.0.0.4", "-p", "0"}, "127.0.0.4"},
		"every address":  {nil, []string{"--host", "0.0.0.0", "--port", "0"}, "127.0.0.1"},
		"name":           {nil, []string{"--host", "localhost", "--port", "0"}, "127.0.0.1"},
		"in brackets":    {nil, []string{"--host", "[::1]", "--port", "0"}, "::1"},
		"every IPv6 too": {nil, []string{"--host", "::", "--port", "0"}, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.host == "::1" {
				requireIPv6(t)
			}
			s := serveAs(t, binary, append(environ(t), c.env...), append([]string{"server"}, c.args...)...)
			host, port, err := net.SplitHostPort(strings.TrimPrefix(s.base, "http://"))
			if err != nil || host != c.host || port == "0" {
				t.Errorf("it says that it is at %s: %v", s.base, err)
			}
			s.ask(t, "/v1/health", "", nil)
		})
	}
}

// TestServiceVariable: a Service of Kubernetes named deskhand is not the port.
func TestServiceVariable(t *testing.T) {
	t.Setenv("DESKHAND_PORT", "tcp://10.0.0.1:2468")
	f := serverFlags{port: defaultPort}
	if err := f.environment(pflag.NewFlagSet("", pflag.ContinueOnError)); err != nil || f.port != defaultPort {
		t.Errorf("port %d, %v; want the default", f.port, err)
	}
}

func requireIPv6(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	l.Close()
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.base, "http://"))
	env := environ(t)
	got := runCommandLine(t, env, "server", "--port", port)
	if got.status != exitFailure || got.stdout != "" || !strings.Contains(got.stderr, "address already in use") || !strings.Contains(got.stderr, "--port") {
		t.Errorf("a second server on the port: %+v", got)
	}
	if entries, err := os.ReadDir(strings.TrimPrefix(home(env), "HOME=")); err != nil || len(entries) > 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
	s.ask(t, "/v1/health", "", nil)
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args    []string
		origin  string
		allowed bool
	}{
		{[]string{"-O", "*"}, "https://anywhere.example", true},
		{[]string{"-O", "https://a.example", "-O", "https://b.example"}, "https://b.example", true},
		{[]string{"-O", "https://a.example"}, "https://b.example", false},
		{nil, "https://b.example", false},
	} {
		s := serve(t, environ(t), append(c.args, "-M", "GET", "-A", "authorization", "-C")...)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/v1/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", c.origin)
		req.Header.Set("Authorization", "Bearer "+s.token)
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK { // a valid token is answered, whatever page its client is on
			t.Errorf("%q, from %s: %s", c.args, c.origin, res.Status)
		}
		if named := res.Header.Get("Access-Control-Allow-Origin") == c.origin; named != c.allowed {
			t.Errorf("%q, from %s: headers %v", c.args, c.origin, res.Header)
		}
	}
}

// TestOldName runs the command under sandbox-agent's name, with what its SDK
// passes.
func TestOldName(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "sandbox-agent")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	s := serveAs(t, link, environ(t), "server", "--host", "127.0.0.1", "--port", "0", "--token", "sdk", "--no-telemetry")
	s.token = "sdk"
	var health struct{ Status string }
	if s.ask(t, "/v1/health", "", &health); health.Status != "ok" {
		t.Errorf("health: %+v", health)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	s := serve(t, environ(t), "--log-file", file, "--log-format", "json", "--access-log")
	s.ask(t, "/v1/health", "", nil)
	s.signal(t, 15)
	if text := s.stderr.String(); text != "" {
		t.Errorf("stderr: %s", text)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(s.stdout.String() + string(text)) {
		var entry struct {
			Msg, URL, Level string
			Duration        any
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if entry.Msg == "request" && entry.URL == "/v1/health" && entry.Level == "INFO" {
			duration, _ := entry.Duration.(string)
			if _, err := time.ParseDuration(duration); err != nil {
				t.Errorf("duration %v, want a text with a unit", entry.Duration)
			}
			found = true
		}
	}
	if info, err := os.Stat(file); !found || err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log has no request, or is not private: %v %v\n%s", info.Mode(), err, text)
	}

	for _, c := range []struct {
		status int
		args   []string
	}{{exitUsage, []string{"server", "--max-desktops", "0"}}, {exitFailure, []string{"server", "--token-file", "/no/such/file"}}} {
		r := runCommandLine(t, environ(t, "DESKHAND_LOG_FORMAT=json"), c.args...)
		var entry struct{ Msg, Level, Error string }
		if err := json.Unmarshal([]byte(r.stderr), &entry); err != nil || r.status != c.status || entry.Level != "ERROR" || entry.Error == "" || r.stdout != "" {
			t.Errorf("%q: %v, %+v, want status %d and one line of JSON", c.args, err, r, c.status)
		}
	}

	if os.Geteuid() == 0 {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil { // without the sticky bit
			t.Fatal(err)
		}
		r := runCommandLine(t, environ(t), "server", "--desktop-user", "daemon", "--log-file", filepath.Join(dir, "log"))
		if r.status != exitUsage || !strings.Contains(r.stderr, "can be changed by user") {
			t.Errorf("a log file that the user can replace: %+v", r)
		}
	}

	s = serve(t, environ(t), "--access-log", "--log-level", "warn")
	s.ask(t, "/v1/health", "", nil)
	s.signal(t, 15)
	if text := s.stderr.String(); text != "" {
		t.Errorf("at level warn: %s", text)
	}
}

// TestLifecycleLog ends the X server of a desktop, and then the desktop.
func TestLifecycleLog(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, environ(t), "--log-format", "json")
	var status struct {
		Processes []struct {
			Name string
			PID  int
		}
	}
	s.ask(t, "/v1/desktop/start", `{"width":320,"height":240}`, &status)
	for _, p := range status.Processes {
		if p.Name == "Xvfb" {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	poll(t, callLimit, "the restart is logged", func() string {
		if text := s.stderr.String(); !strings.Contains(text, `"msg":"desktop restarted"`) {
			return "stderr: " + text
		}
		return ""
	})
	s.ask(t, "/v1/desktop/stop", `{}`, nil)
	poll(t, callLimit, "the stop is logged", func() string {
		if text := s.stderr.String(); !strings.Contains(text, `"msg":"desktop stopped"`) {
			return "stderr: " + text
		}
		return ""
	})
	var got []string
	for line := range strings.Lines(s.stderr.String()) {
		var entry struct{ Msg, Desktop, Level string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if entry.Desktop == "main" {
			got = append(got, entry.Level+" "+entry.Msg)
		}
	}
	if want := []string{"INFO desktop started", "WARN desktop failed", "INFO desktop restarted", "INFO desktop stopped"}; !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

func TestFileRoots(t *testing.T) {
	t.Parallel()
	got, err := fileRoots([]string{"/a", "name=/b", "name==x", "./a=b", "/c=d", "e"})
	if err != nil {
		t.Fatal(err)
	}
	want := []filesystem.Root{
		{Path: "/a"}, {Name: "name", Path: "/b"}, {Name: "name", Path: "=x"}, {Path: "./a=b"}, {Path: "/c=d"}, {Path: "e"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roots (-want +got):\n%s", diff)
	}
}

func TestDesktopFlags(t *testing.T) {
	t.Parallel()
	var f serverFlags
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	f.register(flags)
	if err := flags.Parse([]string{"--desktop-menu", "--desktop-user=daemon", "--no-quiesce"}); err != nil {
		t.Fatal(err)
	}
	cfg, err := f.config()
	if err != nil || !cfg.DesktopMenu || cfg.DesktopUser != "daemon" || !cfg.NoQuiesce {
		t.Errorf("%t, %q, %t, %v", cfg.DesktopMenu, cfg.DesktopUser, cfg.NoQuiesce, err)
	}
	on := hostFlags{on: true, yes: true}
	if err := on.prepare(program{}, false, &cfg); err == nil || !strings.Contains(err.Error(), "excludes --desktop-user") {
		t.Errorf("--host-desktop: %v", err)
	}
}

// TestAccessFlagsAnywhere gives -t and -n to commands that call no server, before
// and after their names.
func TestAccessFlagsAnywhere(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, command := range [][]string{
		{"version"},
		{"help"},
		{"man"},
		{"completion", "bash"},
		{mockCommand, "--dir", home},
		{"install", "desktop", "--print-only", "--package-manager", "apt"},
		{"install-agent", "mock"},
		{"credentials", "extract", "--home-dir", home},
		{"credentials", "extract-env", "--home-dir", home},
	} {
		for _, args := range [][]string{
			append([]string{"-t", "secret"}, command...), append(slices.Clone(command), "-t", "secret"),
			append(slices.Clone(command), "--token=secret"), append(slices.Clone(command), "-n"),
			append([]string{command[0], "-t", "secret"}, command[1:]...),
		} {
			if got := runCommandLine(t, environ(t), args...); got.status != exitOK {
				t.Errorf("%q: %+v", args, got)
			}
		}
	}
}
