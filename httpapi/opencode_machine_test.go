package httpapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/internal/testx11"
)

// openCode calls routes of OpenCode's API about a directory.
type openCode struct {
	*testServer
	dir string
}

func (o openCode) path(path string) string {
	sign := "?"
	if strings.Contains(path, "?") {
		sign = "&"
	}
	return "/opencode" + path + sign + url.Values{"directory": {o.dir}}.Encode()
}

// call calls a route and decodes its answer, which must have the status.
func (o openCode) call(t *testing.T, method, path, body string, status int, into any) {
	t.Helper()
	a := o.do(t, call{method: method, path: o.path(path), body: body})
	if a.StatusCode != status || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s %s: %s, %s: %s", method, path, a.Status, a.Header.Get("Content-Type"), a.body)
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, a.body)
	}
}

// refusal calls a route that answers with an error, and returns its name and text.
func (o openCode) refusal(t *testing.T, method, path, body string, status int) (name, text string) {
	t.Helper()
	var e struct {
		Name string
		Data struct{ Message string }
	}
	o.call(t, method, path, body, status, &e)
	return e.Name, e.Data.Message
}

// serveOpenCode serves a directory with a git repository: a.txt is changed, new.txt is new and
// ignored.log is ignored.
func serveOpenCode(t *testing.T) openCode {
	t.Helper()
	testx11.Require(t, "git")
	o := openCode{serve(t, Config{Version: "1.2.3", Agents: registry.Config{Mock: []string{"true"}}}), t.TempDir()}
	o.write(t, "a.txt", "one\ntwo\n")
	o.write(t, ".gitignore", "*.log\n")
	o.write(t, "sub/main.go", "package main\n\nfunc helloWorld() {}\n")
	for _, args := range [][]string{
		{"init", "-q", "-b", "trunk"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "x"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = o.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	o.write(t, "a.txt", "one\nthree\nfour\n")
	o.write(t, "new.txt", "x\ny\n")
	o.write(t, "ignored.log", "z\n")
	return o
}

func (o openCode) write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenCodeProviders(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	var health struct {
		Healthy bool
		Version string
	}
	if o.call(t, "GET", "/global/health", "", 200, &health); !health.Healthy || health.Version != "1.2.3" {
		t.Errorf("health = %+v", health)
	}
	type provider struct {
		ID     string
		Models map[string]struct{ ID, ProviderID, Name string }
	}
	var list struct {
		All       []provider
		Default   map[string]string
		Connected []string
	}
	o.call(t, "GET", "/provider", "", 200, &list)
	seen := map[string]provider{}
	for _, p := range list.All {
		seen[p.ID] = p
	}
	if m := seen["claude"].Models["opus"]; m.ProviderID != "claude" || m.Name != "Opus" {
		t.Errorf("claude's opus = %+v", m)
	}
	if !strings.Contains(strings.Join(list.Connected, " "), "mock") || len(seen["mock"].Models) == 0 {
		t.Errorf("connected = %v, mock = %+v", list.Connected, seen["mock"])
	}
	if _, ok := seen["mock"].Models[list.Default["mock"]]; !ok {
		t.Errorf("the default of mock is %q, which is none of %+v", list.Default["mock"], seen["mock"].Models)
	}
	var usable struct{ Providers []provider }
	o.call(t, "GET", "/config/providers", "", 200, &usable)
	if len(usable.Providers) != len(list.Connected) {
		t.Errorf("%d providers can be used, %d are connected", len(usable.Providers), len(list.Connected))
	}
	var modes []struct {
		Name, Mode string
		Permission []any
	}
	o.call(t, "GET", "/agent", "", 200, &modes)
	if len(modes) == 0 || modes[0].Name != "build" || modes[0].Mode != "primary" || modes[0].Permission == nil {
		t.Errorf("modes = %+v", modes)
	}
}

func TestOpenCodeSettings(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	var got map[string]any
	o.call(t, "PATCH", "/config", `{"model":"mock/default","agent":{"plan":{"steps":3}}}`, 200, &got)
	o.call(t, "PATCH", "/config", `{"agent":{"plan":{"color":"red"}},"username":"me"}`, 200, &got)
	o.call(t, "PATCH", "/global/config", `{"theme":"dark","username":"all"}`, 200, &got)
	got = nil
	o.call(t, "GET", "/config", "", 200, &got)
	plan, _ := got["agent"].(map[string]any)["plan"].(map[string]any)
	if got["model"] != "mock/default" || plan["steps"] != 3.0 || plan["color"] != "red" || got["theme"] != "dark" || got["username"] != "me" || got["share"] != "disabled" {
		t.Errorf("config = %v", got)
	}
	got = nil
	if o.call(t, "PATCH", "/config", `{"username":null}`, 200, &got); got["username"] != "all" {
		t.Errorf("after null the user is %v", got["username"])
	}
	other := openCode{o.testServer, t.TempDir()}
	got = nil
	if other.call(t, "GET", "/config", "", 200, &got); got["model"] != nil || got["theme"] != "dark" {
		t.Errorf("another project has %v", got)
	}
	if name, text := o.refusal(t, "PATCH", "/config", `[]`, 400); name != "BadRequest" || !strings.Contains(text, "body") {
		t.Errorf("a list is refused with %s: %s", name, text)
	}
}

func TestOpenCodeProject(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	sub := openCode{o.testServer, filepath.Join(o.dir, "sub")}
	var p struct{ ID, Worktree, VCS, Directory string }
	if sub.call(t, "GET", "/project/current", "", 200, &p); p.Worktree != o.dir || p.VCS != "git" || p.ID == "" {
		t.Errorf("project = %+v", p)
	}
	if sub.call(t, "GET", "/path", "", 200, &p); p.Worktree != o.dir || p.Directory != sub.dir {
		t.Errorf("path = %+v", p)
	}
	var v struct {
		Branch        string
		DefaultBranch string `json:"default_branch"`
	}
	if o.call(t, "GET", "/vcs", "", 200, &v); v.Branch != "trunk" {
		t.Errorf("vcs = %+v", v)
	}
	type change struct {
		File, Path, Status          string
		Additions, Deletions, Added int
	}
	for _, path := range []string{"/vcs/status", "/file/status"} {
		var changed []change
		o.call(t, "GET", path, "", 200, &changed)
		want := []change{{"a.txt", "a.txt", "modified", 2, 1, 2}, {"new.txt", "new.txt", "added", 2, 0, 2}}
		if len(changed) != 2 || changed[0] != want[0] || changed[1] != want[1] {
			t.Errorf("%s = %+v", path, changed)
		}
	}
	plain := openCode{o.testServer, t.TempDir()}
	var none []change
	if plain.call(t, "GET", "/file/status", "", 200, &none); none == nil || len(none) != 0 {
		t.Errorf("changes outside of a repository = %v", none)
	}
}

// TestOpenCodeGitAsAgentUser: with a user of agents git runs as this user, because the folders are
// of this user, who may change what git reads at any time.
func TestOpenCodeGitAsAgentUser(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "git", "setpriv")
	if os.Geteuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	dir := filepath.Join(t.TempDir(), "project")
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // another user reads it
		t.Fatal(err)
	}
	for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // another user passes through it
			t.Fatal(err)
		}
	}
	o := openCode{serve(t, Config{Agents: registry.Config{Mock: []string{"true"}}, AgentHost: agents.Config{RunAs: "www-data"}}), dir}
	for _, command := range []string{"chown www-data .", "setpriv --reuid www-data --clear-groups git init -q -b trunk"} {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME=/nonexistent")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	// git as root refuses the repository of another user.
	var v struct{ Branch string }
	if o.call(t, "GET", "/vcs", "", 200, &v); v.Branch != "trunk" {
		t.Errorf("the branch is %q", v.Branch)
	}
	// A terminal in the folder is no way to root for a Makefile in it.
	o.call(t, "POST", "/pty", `{"command":"sh","args":["-c","id -un >who; mv who done"]}`, 200, new(struct{}))
	until(t, "the terminal's command", func() bool { _, err := os.Stat(filepath.Join(dir, "done")); return err == nil })
	if got, err := os.ReadFile(filepath.Join(dir, "done")); string(got) != "www-data\n" {
		t.Errorf("a terminal runs as %q, %v", got, err)
	}
}

func TestOpenCodeFiles(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	var nodes []struct {
		Name, Path, Absolute, Type string
		Ignored                    bool
	}
	o.call(t, "GET", "/file?path=.", "", 200, &nodes)
	var names []string
	for _, n := range nodes {
		name := n.Type + " " + n.Path
		if n.Ignored {
			name += " ignored"
		}
		names = append(names, name)
	}
	if got, want := strings.Join(names, ", "), "directory .git, file .gitignore, file a.txt, file ignored.log ignored, file new.txt, directory sub"; got != want {
		t.Errorf("files = %s, want %s", got, want)
	}
	var content struct{ Type, Content, Encoding, MIMEType string }
	if o.call(t, "GET", "/file/content?path=sub/main.go", "", 200, &content); content.Type != "text" || !strings.Contains(content.Content, "helloWorld") {
		t.Errorf("content = %+v", content)
	}
	o.write(t, "picture", "\x89PNG\r\n\x1a\n\x00")
	if o.call(t, "GET", "/file/content?path=picture", "", 200, &content); content.Type != "binary" || content.Encoding != "base64" || content.MIMEType != "image/png" {
		t.Errorf("content of a picture = %+v", content)
	}
	if name, _ := o.refusal(t, "GET", "/file/content?path=missing", "", 404); name != "NotFoundError" {
		t.Errorf("a missing file is %s", name)
	}
	var found []string
	if o.call(t, "GET", "/find/file?query=mgo", "", 200, &found); len(found) != 1 || found[0] != "sub/main.go" {
		t.Errorf("mgo finds %v", found)
	}
	if o.call(t, "GET", "/find/file?query=su&type=directory", "", 200, &found); len(found) != 1 || found[0] != "sub/" {
		t.Errorf("su finds %v", found)
	}
	if o.call(t, "GET", "/find/file?query=log", "", 200, &found); len(found) != 0 {
		t.Errorf("an ignored file is found: %v", found)
	}
	var lines []struct {
		Path, Lines struct{ Text string }
		Number      int `json:"line_number"`
		Offset      int `json:"absolute_offset"`
		Submatches  []struct{ Start, End int }
	}
	o.call(t, "GET", "/find?pattern=hello%5BW%5Dorld", "", 200, &lines)
	if len(lines) != 1 || lines[0].Path.Text != "sub/main.go" || lines[0].Number != 3 || lines[0].Offset != 14 || len(lines[0].Submatches) != 1 || lines[0].Submatches[0].Start != 5 {
		t.Errorf("helloWorld is at %+v", lines)
	}
	if _, text := o.refusal(t, "GET", "/find?pattern=%5B", "", 400); !strings.Contains(text, "pattern") {
		t.Errorf("a bad pattern is refused with %s", text)
	}
}

// TestOpenCodeLongLines: a search answers with the beginning of long lines, so that a folder cannot
// fill the server's memory.
func TestOpenCodeLongLines(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	for _, name := range []string{"1", "2", "3"} {
		o.write(t, name, "short\nneedle"+strings.Repeat("x", 1<<20)+"needle\n")
	}
	var found []struct {
		Lines      struct{ Text string }
		LineNumber int `json:"line_number"`
		Offset     int `json:"absolute_offset"`
		Submatches []struct{ Start, End int }
	}
	o.call(t, "GET", "/find?pattern=needle", "", 200, &found)
	if len(found) != 3 {
		t.Fatalf("%d lines", len(found))
	}
	for _, f := range found {
		if len(f.Lines.Text) != 4<<10 || len(f.Submatches) != 1 || f.Submatches[0].End != len("needle") || f.LineNumber != 2 || f.Offset != len("short\n") {
			t.Errorf("a line of %d bytes, %+v, number %d at %d", len(f.Lines.Text), f.Submatches, f.LineNumber, f.Offset)
		}
	}
}

func TestOpenCodeFilesStayInRoots(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{Roots: []filesystem.Root{{Path: t.TempDir()}}})
	outside := openCode{s, t.TempDir()}
	outside.write(t, "secret", "x")
	for _, path := range []string{"/file?path=.", "/file/content?path=secret", "/find?pattern=x", "/find/file?query=secret"} {
		a := s.get(t, outside.path(path))
		if a.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
}

func TestOpenCodeTerminal(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	var p struct {
		ID, Title, Status, Cwd string
		PID                    int
		ExitCode               *int
	}
	o.call(t, "POST", "/pty", `{"command":"sh","args":["-c","printf 'begin \\303\\274\\n'; while read line; do echo got $line; stty size; done; exit 3"],"title":"T"}`, 200, &p)
	if !strings.HasPrefix(p.ID, "pty_") || p.Title != "T" || p.Status != "running" || p.Cwd != o.dir || p.PID == 0 {
		t.Errorf("terminal = %+v", p)
	}
	conn := o.dial(t, o.path("/pty/"+p.ID+"/connect"), nil)
	text, cursor := "", ""
	until := func(conn *websocket.Conn, want string) {
		t.Helper()
		for !strings.Contains(text, want) {
			kind, data, err := conn.ReadMessage()
			switch {
			case err != nil:
				t.Fatalf("%v; output %q", err, text)
			case kind == websocket.BinaryMessage:
				cursor = string(data)
			default:
				text += string(data)
			}
		}
	}
	until(conn, "begin ü\r\n")
	o.call(t, "PUT", "/pty/"+p.ID, `{"title":"U","size":{"rows":20,"cols":70}}`, 200, &p)
	if p.Title != "U" {
		t.Errorf("title = %s", p.Title)
	}
	if err := conn.WriteMessage(websocket.TextMessage, []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	until(conn, "20 70\r\n")
	if !strings.HasPrefix(cursor, "\x00{\"cursor\":") {
		t.Errorf("cursor = %q", cursor)
	}
	all := text
	// A client that comes again continues where it was.
	text = ""
	second := o.dial(t, o.path("/pty/"+p.ID+"/connect?cursor=7"), nil)
	if until(second, "20 70\r\n"); "begin "+text[strings.Index(text, "\r\n")-len("ü")+len("ü"):] == all {
		t.Errorf("from 7 on it is %q", text)
	}
	third := o.dial(t, o.path("/pty/"+p.ID+"/connect?cursor=-1"), nil)
	if kind, data, err := third.ReadMessage(); err != nil || kind != websocket.BinaryMessage || string(data) == "" {
		t.Errorf("a client without the past gets %d %q %v", kind, data, err)
	}
	if err := third.WriteMessage(websocket.TextMessage, []byte("\x04")); err != nil {
		t.Fatal(err)
	}
	for {
		_, _, err := third.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNoStatusReceived, websocket.CloseNormalClosure) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if o.call(t, "GET", "/pty/"+p.ID, "", 200, &p); p.Status != "exited" || p.ExitCode == nil || *p.ExitCode != 3 {
		t.Errorf("after its end it is %+v", p)
	}
	var ended bool
	if o.call(t, "DELETE", "/pty/"+p.ID, "", 200, &ended); !ended {
		t.Error("the terminal was not deleted")
	}
	if name, _ := o.refusal(t, "GET", "/pty/"+p.ID, "", 404); name != "NotFoundError" {
		t.Errorf("a deleted terminal is %s", name)
	}
	var list []any
	if o.call(t, "GET", "/pty", "", 200, &list); len(list) != 0 {
		t.Errorf("terminals = %v", list)
	}
}

// TestOpenCodeRemovedTerminal: a terminal is forgotten with its process, at the latest when another one
// is made.
func TestOpenCodeRemovedTerminal(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	terminal := func() (id string) {
		var p struct{ ID string }
		o.call(t, "POST", "/pty", `{"command":"true"}`, 200, &p)
		return p.ID
	}
	first := terminal()
	until(t, "the terminal has ended", func() bool {
		var p struct{ Status string }
		o.call(t, "GET", "/pty/"+first, "", 200, &p)
		return p.Status == "exited"
	})
	o.do(t, call{method: http.MethodDelete, path: "/v1/processes/" + strings.TrimPrefix(first, "pty_")}).want(t, http.StatusNoContent)
	terminal()
	o.refusal(t, "GET", "/pty/"+first, "", 404)
}

func TestOpenCodeMCP(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	type status map[string]struct{ Status, Error string }
	var got status
	o.call(t, "POST", "/mcp", `{"name":"search","config":{"type":"local","command":["true","x"],"environment":{"A":"b"}}}`, 200, &got)
	if got["search"].Status != "connected" {
		t.Errorf("mcp = %v", got)
	}
	// Sessions get it: it is in the configuration of the directory.
	entry := o.get(t, "/v1/config/mcp?"+url.Values{"directory": {o.dir}, "mcpName": {"search"}}.Encode()).want(t, 200).json(t)
	if env, _ := entry["env"].(map[string]any); env["A"] != "b" {
		t.Errorf("the entry is %v", entry)
	}
	var done bool
	o.call(t, "POST", "/mcp/search/disconnect", `{}`, 200, &done)
	got = nil
	if o.call(t, "GET", "/mcp", "", 200, &got); got["search"].Status != "disabled" {
		t.Errorf("mcp = %v", got)
	}
	o.call(t, "POST", "/mcp/search/connect", `{}`, 200, &done)
	o.write(t, ".sandbox-agent/config/mcp.json", `{"found":{"type":"local","command":"true"}}`)
	got = nil
	if o.call(t, "GET", "/mcp", "", 200, &got); got["found"].Status != "failed" || !strings.Contains(got["found"].Error, "approve") {
		t.Errorf("mcp = %v", got)
	}
	// Sessions refuse an entry with a member that is given twice, and nobody can enable it.
	const twice = `{"type":"local","command":"safe","command":"evil"}`
	o.write(t, ".sandbox-agent/config/mcp.json", `{"found":`+twice+`}`)
	query := url.Values{"directory": {o.dir}, "mcpName": {"found"}, "hash": {folders.Hash(json.RawMessage(twice))}}
	o.post(t, "/v1/config/mcp/approve?"+query.Encode(), "").want(t, 204)
	o.refusal(t, "POST", "/mcp/found/connect", `{}`, 400)
	if name, _ := o.refusal(t, "POST", "/mcp/none/connect", `{}`, 404); name != "NotFoundError" {
		t.Errorf("an unknown MCP server is %s", name)
	}
}

func TestOpenCodeUnserved(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	for _, tc := range [][3]string{
		{"PUT", "/auth/anthropic", "environment"}, {"POST", "/mcp/x/auth", "sign in"}, {"GET", "/find/symbol?query=x", "language server"},
		{"POST", "/global/upgrade", "deskhand upgrade"}, {"GET", "/experimental/tool/ids", "tools"}, {"POST", "/pty/pty_1/connect-token", "auth_token"},
	} {
		name, text := o.refusal(t, tc[0], tc[1], "", 501)
		if path, _, _ := strings.Cut(tc[1], "?"); name != "NotImplementedError" || !strings.Contains(text, tc[2]) || !strings.Contains(text, strings.Split(path, "/")[1]) {
			t.Errorf("%s %s is refused with %s: %s", tc[0], tc[1], name, text)
		}
	}
	if _, text := o.refusal(t, "POST", "/log", `{"service":"x","level":"loud","message":"m"}`, 400); !strings.Contains(text, "level") {
		t.Errorf("an unknown level is refused with %s", text)
	}
	var done bool
	if o.call(t, "POST", "/log", `{"service":"x","level":"info","message":"m"}`, 200, &done); !done {
		t.Error("the message was not logged")
	}
}

// TestOpenCodeAllow: with the permission "allow" in the settings of a project, agents are not
// asked for permission to be given: new sessions and sessions that exist.
func TestOpenCodeAllow(t *testing.T) {
	t.Parallel()
	o := openCode{serve(t, Config{}), t.TempDir()}
	type session struct{ ID string }
	prompt := func(s session, text string) string {
		t.Helper()
		var reply struct{ Parts []struct{ Type, Text string } }
		o.call(t, "POST", "/session/"+s.ID+"/message", `{"model":{"providerID":"mock","modelID":"default"},"parts":[{"type":"text","text":"`+text+`"}]}`, 200, &reply)
		said := ""
		for _, p := range reply.Parts {
			said += p.Text
		}
		return said
	}
	var before, after session
	o.call(t, "POST", "/session", `{}`, 200, &before)
	prompt(before, "hello")
	var settings map[string]any
	o.call(t, "PATCH", "/config", `{"permission":"allow"}`, 200, &settings)
	o.call(t, "POST", "/session", `{}`, 200, &after)
	for name, s := range map[string]session{"session that existed": before, "new session": after} {
		if said := prompt(s, "permission"); !strings.Contains(said, "I was allowed to run it") {
			t.Errorf("a %s says %q", name, said)
		}
	}
}
