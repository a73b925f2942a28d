package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/internal/testx11"
)

// configure writes an entry of a folder's configuration, as clients do.
func configure(t *testing.T, h *agents.Host, cwd string, kind folders.Kind, name, entry string) {
	t.Helper()
	if err := h.Folders().Put(t.Context(), cwd, kind, name, json.RawMessage(entry)); err != nil {
		t.Fatal(err)
	}
}

// sessionIn makes a session in a folder and returns its id.
func sessionIn(t *testing.T, h *agents.Host, cwd, servers string) string {
	t.Helper()
	answer := post(t, h, "srv", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":%s,"more":1e400}}`, cwd, servers))
	return strings.Trim(member(t, answer, "result", "sessionId"), `"`)
}

func TestMCPConfiguration(t *testing.T) {
	t.Setenv("TEST_BEARER", "tok")
	t.Setenv("TEST_HEADER", "head")
	dir := t.TempDir()
	file := filepath.Join(dir, "received")
	h := host(t, agents.Config{Launch: agentOf("RECEIVED="+file, `CAPS={"loadSession":true,"mcpCapabilities":{"http":true}}`, "SESSIONS="+dir)})
	post(t, h, "srv", initialize)
	cwd := t.TempDir()
	for name, entry := range map[string]string{
		"a":       `{"type":"local","command":["prog","-x"],"args":["y"],"env":{"K":"V"},"timeoutMs":2000}`,
		"b":       `{"type":"remote","url":"http://127.0.0.1:1/mcp","headers":{"X":"1"},"bearerTokenEnvVar":"TEST_BEARER","envHeaders":{"Y":"TEST_HEADER"}}`,
		"c":       `{"type":"remote","url":"http://127.0.0.1:1/sse","transport":"sse"}`,
		"client":  `{"type":"local","command":"other"}`,
		"missing": `{"type":"remote","url":"http://x","bearerTokenEnvVar":"TEST_NOT_THERE"}`,
		"oauth":   `{"type":"remote","url":"http://x","oauth":{"clientId":"1"}}`,
		"off":     `{"type":"local","command":"off","enabled":false}`,
	} {
		configure(t, h, cwd, folders.MCP, name, entry)
	}
	id := sessionIn(t, h, cwd, `[{"name":"client","command":"mine","args":[],"env":[]}]`)
	const want = `"mcpServers":[{"name":"client","command":"mine","args":[],"env":[]},` +
		`{"name":"a","command":"prog","args":["-x","y"],"env":[{"name":"K","value":"V"},{"name":"NODE_DISABLE_COMPILE_CACHE","value":"1"}]},` +
		`{"type":"http","name":"b","url":"http://127.0.0.1:1/mcp","headers":[{"name":"Authorization","value":"Bearer tok"},{"name":"X","value":"1"},{"name":"Y","value":"head"}]}],"more":1e400}`
	if got := received(t, file); !strings.Contains(got, want) {
		t.Errorf("the agent got %s", got)
	}
	s, err := h.Session(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	problems := strings.Join(s.Problems, "\n")
	for _, part := range []string{"missing: the environment variable TEST_NOT_THERE", "oauth: oauth cannot", "c: scripted cannot use"} {
		if !strings.Contains(problems, part) {
			t.Errorf("no %q in the problems:\n%s", part, problems)
		}
	}
	if text := payloads(stream(t, h, id)) + string(s.Init); strings.Contains(text, "Bearer tok") {
		t.Errorf("a token is in the log: %s", text)
	}
	// It is there as well when a session is loaded.
	post(t, h, "srv", fmt.Sprintf(`{"id":3,"method":"session/load","params":{"sessionId":%q,"cwd":%q,"mcpServers":[]}}`, id, cwd))
	if got := received(t, file); strings.Count(got, "Bearer tok") != 2 {
		t.Errorf("the agent got %s", got)
	}
}

func TestDesktopIsMounted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "received")
	var processes []context.Context // one for each call
	mount := func(_, process context.Context, desktop, agent string) (agents.Mount, error) {
		processes = append(processes, process)
		if desktop == "none" {
			return agents.Mount{}, errors.New("no such desktop")
		}
		return agents.Mount{
			Env: []string{"DISPLAY=:" + desktop},
			Servers: []agents.MCPServer{
				{Name: "desktop", URL: "http://127.0.0.1:1/" + agent}, {Name: "desktop", Command: "relay", Args: []string{desktop}},
			},
		}, nil
	}
	for _, c := range []struct{ caps, want string }{
		{`{}`, `{"name":"desktop","command":"relay","args":["7"],"env":[]}`},
		{`{"mcpCapabilities":{"http":true}}`, `{"type":"http","name":"desktop","url":"http://127.0.0.1:1/scripted","headers":[]}`},
	} {
		h := host(t, agents.Config{Launch: agentOf("RECEIVED="+file, "CAPS="+c.caps), Mount: mount})
		o := agents.PostOptions{Agent: "scripted", Desktop: "7"}
		if _, err := h.Post(within(t), "srv", o, []byte(initialize)); err != nil {
			t.Fatal(err)
		}
		id := newSession(t, h, "srv")
		if got := received(t, file); !strings.Contains(got, `"mcpServers":[`+c.want+`]`) {
			t.Errorf("the agent got %s", got)
		}
		if got := post(t, h, "srv", `{"id":1,"method":"env"}`); !strings.Contains(got, `"DISPLAY=:7"`) {
			t.Errorf("environment = %s", got)
		}
		if s, err := h.Session(within(t), id); err != nil || s.Desktop != "7" {
			t.Errorf("session = %+v, %v", s, err)
		}
		n := len(processes)
		if n < 2 || processes[n-1] != processes[n-2] || processes[n-1].Err() != nil {
			t.Errorf("processes = %v", processes)
		}
		if err := h.Delete(within(t), "srv"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-processes[n-1].Done():
		case <-time.After(limit):
			t.Error("the process has not ended for Mount")
		}
		o.Desktop = "none"
		if _, err := h.Post(within(t), "other", o, []byte(initialize)); err == nil || err.Error() != "no such desktop" {
			t.Errorf("Post = %v", err)
		}
	}
}

// repository makes a git repository with two skills.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "skills", "one", "SKILL.md"), "first")
	write(t, filepath.Join(dir, "skills", "one", "run.sh"), "#!/bin/sh")
	write(t, filepath.Join(dir, "skills", "two", "SKILL.md"), "second")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "skills", "one", "link")); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "main")
	commit(t, dir)
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit commits the files of a repository and returns the commit's id.
func commit(t *testing.T, dir string) string {
	t.Helper()
	git(t, dir, "add", ".")
	git(t, dir, "-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-qm", "x")
	return git(t, dir, "rev-parse", "HEAD")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSkills(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "git")
	h := host(t, agents.Config{StateDir: t.TempDir()})
	post(t, h, "srv", initialize)
	cwd, repo, local := t.TempDir(), repository(t), t.TempDir()
	write(t, filepath.Join(local, "SKILL.md"), "third")
	at := func(name ...string) string {
		return filepath.Join(append([]string{cwd, ".agents", "skills"}, name...)...)
	}
	write(t, at("mine", "SKILL.md"), "the user's own")
	configure(t, h, cwd, folders.Skills, "repo", fmt.Sprintf(`{"sources":[{"type":"git","source":%q,"skills":["one"],"ref":"main"}]}`, repo))
	configure(t, h, cwd, folders.Skills, "local", fmt.Sprintf(`{"sources":[{"type":"local","source":%q}]}`, local))
	configure(t, h, cwd, folders.Skills, "gone", `{"sources":[{"type":"git","source":"/nonexistent/repo"},{"type":"github","source":"-x"},{"type":"zz","source":"y"}]}`)
	id := sessionIn(t, h, cwd, "[]")
	for path, want := range map[string]string{
		at("one", "SKILL.md"): "first", at(filepath.Base(local), "SKILL.md"): "third", at("mine", "SKILL.md"): "the user's own",
	} {
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s = %q, %v", path, b, err)
		}
	}
	for _, no := range []string{at("two"), at("one", "link"), at("one", ".git")} {
		if _, err := os.Lstat(no); err == nil {
			t.Errorf("%s is there", no)
		}
	}
	s, err := h.Session(within(t), id)
	if err != nil || len(s.Problems) != 3 || !strings.Contains(s.Problems[0], "skills gone: git /nonexistent/repo: git fetch") {
		t.Errorf("problems = %q, %v", s.Problems, err)
	}

	if text := payloads(stream(t, h, id)); strings.Count(text, `"method":"session/problem"`) != 3 {
		t.Errorf("stream:%s", text)
	}

	// What changes comes again; what is not configured any more goes.
	write(t, filepath.Join(local, "SKILL.md"), "changed")
	for _, name := range []string{"repo", "gone"} {
		if err := h.Folders().Delete(t.Context(), cwd, folders.Skills, name); err != nil {
			t.Fatal(err)
		}
	}
	configure(t, h, cwd, folders.Skills, "mine", fmt.Sprintf(`{"sources":[{"type":"git","source":%q,"subpath":"../x"}]}`, repo))
	sessionIn(t, h, cwd, "[]")
	if b, _ := os.ReadFile(at(filepath.Base(local), "SKILL.md")); string(b) != "changed" {
		t.Errorf("the local skill is %q", b)
	}
	if _, err := os.Lstat(at("one")); err != nil {
		t.Error("a skill was removed although not all sources could be read")
	}
	if err := h.Folders().Delete(t.Context(), cwd, folders.Skills, "mine"); err != nil {
		t.Fatal(err)
	}
	sessionIn(t, h, cwd, "[]")
	if _, err := os.Lstat(at("one")); err == nil {
		t.Error("a skill that is not configured any more is still there")
	}
	if _, err := os.Lstat(at("mine")); err != nil {
		t.Error("the user's own skill is gone")
	}
}
