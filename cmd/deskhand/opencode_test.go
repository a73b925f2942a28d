package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/supervise"
)

// openCodeTest runs the command with another program instead of opencode, which prints its
// arguments, its password and its variables of deskhand.
type openCodeTest struct {
	*daemonTest
	program string
	dir     string
}

func newOpenCodeTest(t *testing.T) *openCodeTest {
	t.Helper()
	dir := t.TempDir()
	o := &openCodeTest{newDaemonTest(t), filepath.Join(dir, "opencode"), dir}
	writeFile(t, o.program, "#!/bin/sh\necho \"arguments: $*\"\necho \"password: $OPENCODE_SERVER_PASSWORD\"\nenv | grep ^DESKHAND_\n", 0o700)
	o.env = append(o.env, group)
	return o
}

// group names the group of processes that the command is in.
const group = supervise.GroupVariable + "=outer.1"

// open runs a command and returns the arguments and the password that opencode got.
func (o *openCodeTest) open(t *testing.T, command string, args ...string) (arguments, password string) {
	t.Helper()
	args = append([]string{command, "--port", o.port, "--opencode-bin", o.program, "--dir", o.dir}, args...)
	got := runCommandLine(t, o.env, args...)
	lines := strings.Split(got.stdout, "\n")
	if got.status != exitOK || len(lines) != 4 || lines[2] != group {
		t.Fatalf("%q: %+v", args, got)
	}
	return strings.TrimPrefix(lines[0], "arguments: "), strings.TrimPrefix(lines[1], "password: ")
}

// settings returns the settings of the project.
func (o *openCodeTest) settings(t *testing.T, password string) (all map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+o.port+"/opencode/config?"+url.Values{"directory": {o.dir}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("opencode", password)
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(text, &all) != nil {
		t.Fatalf("%s %s %v", res.Status, text, err)
	}
	return all
}

func TestOpenCode(t *testing.T) {
	t.Parallel()
	o := newOpenCodeTest(t)
	database := filepath.Join(t.TempDir(), "events.db")
	o.env = append(o.env, "DESKHAND_DATABASE=sqlite:"+database)
	plain := fmt.Sprintf("attach http://127.0.0.1:%s/opencode --dir %s", o.port, o.dir)
	arguments, password := o.open(t, "opencode", "--", "--continue")
	if arguments != plain+" --continue" {
		t.Errorf("opencode gets %q", arguments)
	}
	if _, err := os.Stat(database); err != nil {
		t.Errorf("the server has another database: %v", err)
	}
	pid := o.pid()
	// The second run uses the same server. The token is not on the command line.
	arguments, again := o.open(t, "gigacode", "--agent", "mock", "--yolo")
	if arguments != plain || again != password || o.pid() != pid {
		t.Errorf("gigacode gets %q and the password %q of process %d; before it was %q of %d", arguments, again, o.pid(), password, pid)
	}
	if got := o.settings(t, password); got["permission"] != "allow" || got["model"] == nil || !strings.HasPrefix(fmt.Sprint(got["model"]), "mock/") {
		t.Errorf("settings = %v", got)
	}
	if o.open(t, "opencode"); o.settings(t, password)["permission"] != nil {
		t.Errorf("without --yolo the settings are %v", o.settings(t, password))
	}
	if arguments, _ = o.open(t, "opencode", "--session-title", "My title"); !strings.HasPrefix(arguments, plain+" --session ") {
		t.Errorf("with a title opencode gets %q", arguments)
	}
	for _, tc := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--agent", "none"}, exitUsage, "there is no agent \"none\""},
		{[]string{"--token", "wrong"}, exitFailure, "does not accept the token"},
		{[]string{"--opencode-bin", "/none/opencode"}, exitFailure, "--opencode-bin"},
		{[]string{"extra"}, exitUsage, "after --"},
	} {
		args := append([]string{"opencode", "--port", o.port, "--opencode-bin", o.program}, tc.args...)
		if got := runCommandLine(t, o.env, args...); got.status != tc.status || !strings.Contains(got.stderr, tc.want) {
			t.Errorf("%q: %+v, want %d and %q", tc.args, got, tc.status, tc.want)
		}
	}
}

func TestOpenCodeUsesAServerInTheForeground(t *testing.T) {
	t.Parallel()
	o := newOpenCodeTest(t)
	s := serve(t, o.env, "--token", "secret")
	o.port = s.base[strings.LastIndex(s.base, ":")+1:]
	if _, password := o.open(t, "opencode", "--token", "secret"); password != "secret" || o.running() {
		t.Errorf("the password is %q, a daemon runs: %v", password, o.running())
	}
}
