package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// configPath is the URL of an entry.
func configPath(kind, directory, name string) string {
	param := map[string]string{"mcp": "mcpName", "skills": "skillName"}[kind]
	return "/v1/config/" + kind + "?" + url.Values{"directory": {directory}, param: {name}}.Encode()
}

// configFile is what a directory's file holds.
func configFile(t *testing.T, directory, kind string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(directory, ".sandbox-agent", "config", kind+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (s *testServer) put(t *testing.T, path, body string) answer {
	t.Helper()
	return s.do(t, call{method: http.MethodPut, path: path, body: body})
}

func TestConfigEntries(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	for _, tc := range []struct {
		name, kind, body string
		want             string // what GET answers
	}{
		{"least local", "mcp", `{"type":"local","command":"x"}`, `{"type":"local","command":"x","args":[]}`},
		{"command with arguments", "mcp", `{"type":"local","command":["x","y"],"args":["z"]}`, `{"type":"local","command":["x","y"],"args":["z"]}`},
		{
			"full local", "mcp",
			`{"type":"local","command":"x","args":["a b"],"env":{"K":"ü"},"enabled":false,"timeoutMs":2000,"cwd":"/tmp"}`,
			`{"type":"local","command":"x","args":["a b"],"env":{"K":"ü"},"enabled":false,"timeoutMs":2000,"cwd":"/tmp"}`,
		},
		{
			"aliases of local", "mcp", `{"type":"stdio","command":"x","environment":{"A":"<&>"},"timeout":7}`,
			`{"type":"local","command":"x","env":{"A":"<&>"},"timeoutMs":7,"args":[]}`,
		},
		{
			"full remote", "mcp",
			`{"type":"remote","url":"https://x","headers":{"a":"b"},"bearerTokenEnvVar":"T","envHeaders":{"c":"D"},"oauth":{"clientId":"i","clientSecret":"s","scope":"x"},"enabled":true,"timeoutMs":1,"transport":"sse"}`,
			`{"type":"remote","url":"https://x","headers":{"a":"b"},"bearerTokenEnvVar":"T","envHeaders":{"c":"D"},"oauth":{"clientId":"i","clientSecret":"s","scope":"x"},"enabled":true,"timeoutMs":1,"transport":"sse"}`,
		},
		{
			"aliases of remote", "mcp", `{"type":"http","url":"u","envHttpHeaders":{"A":"B"},"oauth":false}`,
			`{"type":"remote","url":"u","envHeaders":{"A":"B"},"oauth":false}`,
		},
		{
			"null is absent", "mcp", `{"type":"remote","url":"u","headers":null,"oauth":null,"enabled":null,"timeoutMs":null,"transport":null}`,
			`{"type":"remote","url":"u"}`,
		},
		{
			"unknown members", "mcp", `{"later":{"b":[1,2.50,null],"a":1e40},"type":"local","command":"x","x-null":null,"big":12345678901234567890}`,
			`{"later":{"b":[1,2.50,null],"a":1e40},"type":"local","command":"x","x-null":null,"big":12345678901234567890,"args":[]}`,
		},
		{"other case", "mcp", `{"Type":"stdio","COMMAND":"x","Args":["y"]}`, `{"type":"local","command":"x","args":["y"]}`},
		{"no sources", "skills", `{"sources":[]}`, `{"sources":[]}`},
		{
			"sources", "skills",
			`{"sources":[{"type":"github","source":"o/r","skills":["a"],"ref":"main","subpath":"s"},{"type":"own","source":"/x","ref":null,"later":1}],"more":[1]}`,
			`{"sources":[{"type":"github","source":"o/r","skills":["a"],"ref":"main","subpath":"s"},{"type":"own","source":"/x","later":1}],"more":[1]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "new")
			at := configPath(tc.kind, dir, "a b/ü\n")
			s.get(t, at).problem(t, 404, "not_found")
			if a := s.put(t, at, tc.body).want(t, 204); len(a.body) != 0 {
				t.Errorf("PUT answers %q", a.body)
			}
			a := s.get(t, at).want(t, 200)
			if got := strings.TrimSpace(string(a.body)); got != tc.want {
				t.Errorf("entry = %s\nwant    %s", got, tc.want)
			}
			if got := a.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type = %s", got)
			}
			for range 2 {
				s.do(t, call{method: "DELETE", path: at}).want(t, 204)
			}
			if got := configFile(t, dir, tc.kind); got != "{}\n" {
				t.Errorf("file = %q", got)
			}
		})
	}
}

// TestConfigFile compares what is on the disk with what sandbox-agent writes.
func TestConfigFile(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	s.put(t, configPath("mcp", dir, "z"), `{"type":"http","url":"u"}`).want(t, 204)
	s.put(t, configPath("mcp", dir, "a"), `{"type":"local","command":"x"}`).want(t, 204)
	want := `{
  "a": {
    "type": "local",
    "command": "x",
    "args": []
  },
  "z": {
    "type": "remote",
    "url": "u"
  }
}
`
	if diff := cmp.Diff(want, configFile(t, dir, "mcp")); diff != "" {
		t.Errorf("mcp.json (-want +got):\n%s", diff)
	}
	s.do(t, call{method: "DELETE", path: configPath("skills", filepath.Join(dir, "other"), "x")}).want(t, 204)
	if got := configFile(t, filepath.Join(dir, "other"), "skills"); got != "{}\n" {
		t.Errorf("skills.json = %q", got)
	}
}

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{MaxBodyBytes: 1000})
	dir := t.TempDir()
	at, skill := configPath("mcp", dir, "a"), configPath("skills", dir, "a")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	put := func(path, body string) call { return call{method: "PUT", path: path, body: body} }
	for _, tc := range []struct {
		name   string
		call   call
		status int
		code   string
		detail string // part of it
	}{
		{"no entry", call{path: at}, 404, "not_found", "mcp a"},
		{"no skills entry", call{path: skill}, 404, "not_found", "skills a"},
		{"blank name", call{path: configPath("mcp", dir, " \t")}, 400, "invalid_request", "missing required 'mcpName' query parameter"},
		{"blank skill", put(configPath("skills", dir, ""), `{"sources":[]}`), 400, "invalid_request", "skillName"},
		{"blank directory", call{method: "DELETE", path: configPath("mcp", " ", "a")}, 400, "invalid_request", "missing required 'directory' query parameter"},
		{"no name", call{path: "/v1/config/mcp?directory=x"}, 400, "invalid_request", "mcpName"},
		{"no directory", call{path: "/v1/config/skills?skillName=x"}, 400, "invalid_request", "directory"},
		{"name twice", call{path: at + "&mcpName=b"}, 400, "invalid_request", "once"},
		{"name of other bytes", call{path: "/v1/config/mcp?directory=x&mcpName=%FF"}, 400, "invalid_request", "UTF-8"},
		{"directory with NUL", call{path: "/v1/config/mcp?directory=x%00&mcpName=a"}, 400, "invalid_request", "NUL"},
		{"directory is a file", put(configPath("mcp", filepath.Join(dir, "file"), "a"), `{"type":"http","url":"u"}`), 400, "invalid_request", "file"},
		{"long directory", put(configPath("mcp", "/"+strings.Repeat("x", 5000), "a"), `{"type":"http","url":"u"}`), 400, "invalid_request", "name too long"},

		{"no Content-Type", call{method: "PUT", path: at, body: `{}`, kind: "-"}, 415, "unsupported_media_type", "application/json"},
		{"no body", call{method: "PUT", path: at}, 422, "invalid_request", "type"},
		{"no JSON", put(at, `{`), 400, "invalid_request", "body"},
		{"no object", put(at, `["local"]`), 422, "invalid_request", "object"},
		{"large", put(at, `{"type":"local","command":"`+strings.Repeat("x", 1000)+`"}`), 413, "invalid_request", "1000 bytes"},
		{"type", put(at, `{"type":"zz","command":"x"}`), 422, "invalid_request", "type: expected value to be one of"},
		{"type of type", put(at, `{"type":1}`), 422, "invalid_request", "type"},
		{"local without command", put(at, `{"type":"stdio"}`), 422, "invalid_request", "command"},
		{"null command", put(at, `{"type":"stdio","command":null}`), 422, "invalid_request", "command"},
		{"remote without url", put(at, `{"type":"http","command":"x"}`), 422, "invalid_request", "url"},
		{"command of numbers", put(at, `{"type":"local","command":[1]}`), 422, "invalid_request", "command"},
		{"args", put(at, `{"type":"local","command":"x","args":"y"}`), 422, "invalid_request", "args"},
		{"env", put(at, `{"type":"local","command":"x","env":{"A":1}}`), 422, "invalid_request", "env.A"},
		{"timeoutMs", put(at, `{"type":"local","command":"x","timeoutMs":-1}`), 422, "invalid_request", "timeoutMs"},
		{"timeout alias", put(at, `{"type":"local","command":"x","timeout":1.5}`), 422, "invalid_request", "timeout"},
		{"both names", put(at, `{"type":"local","command":"x","timeout":1,"timeoutMs":1}`), 422, "invalid_request", "timeoutMs: must be given once"},
		{"same name twice", put(at, `{"type":"local","command":"x","command":"y"}`), 422, "invalid_request", "command: must be given once"},
		{"oauth true", put(at, `{"type":"remote","url":"u","oauth":true}`), 422, "invalid_request", "oauth"},
		{"transport", put(at, `{"type":"remote","url":"u","transport":"zz"}`), 422, "invalid_request", "transport"},
		{"no sources", put(skill, `{}`), 422, "invalid_request", "sources"},
		{"source without type", put(skill, `{"sources":[{"source":"x"}]}`), 422, "invalid_request", "sources[0].type"},
		{"source type twice", put(skill, `{"sources":[{"type":"a","type":"b","source":"x"}]}`), 422, "invalid_request", "sources[0].type: must be given once"},
		{"skills", put(skill, `{"sources":[{"type":"a","source":"x","skills":[1]}]}`), 422, "invalid_request", "skills"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := s.do(t, tc.call).problem(t, tc.status, tc.code)
			if detail := p["detail"].(string); !strings.Contains(detail, tc.detail) {
				t.Errorf("detail = %q, want it to have %q", detail, tc.detail)
			}
		})
	}
	t.Run("details of a missing entry", func(t *testing.T) {
		t.Parallel()
		p := s.get(t, configPath("mcp", dir, "a b")).problem(t, 404, "not_found")
		if diff := cmp.Diff(map[string]any{"id": "a b", "resource": "mcp"}, p["details"]); diff != "" {
			t.Errorf("details (-want +got):\n%s", diff)
		}
	})
}

// TestCorruptConfig: what somebody else has written wrongly is named, and stays.
func TestCorruptConfig(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, ".sandbox-agent", "config", "mcp.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	at := configPath("mcp", dir, "a")
	const corrupt = `{"a":{"type":"local","command":"x"}}{`
	write(corrupt)
	for _, c := range []call{{path: at}, {method: "PUT", path: at, body: `{"type":"http","url":"u"}`}, {method: "DELETE", path: at}} {
		p := s.do(t, c).problem(t, 400, "invalid_request")
		if detail := p["detail"].(string); !strings.Contains(detail, "invalid config file "+file) {
			t.Errorf("%s: detail = %q, want it to name %s", c.method, detail, file)
		}
	}
	if got := configFile(t, dir, "mcp"); got != corrupt {
		t.Errorf("the file was changed to %q", got)
	}
	// An entry that is none does not keep others from being used.
	write(`{"a":{"type":"stdio","command":"x"},"b":17,"c":{"type":"later"}}`)
	if got := s.get(t, at).want(t, 200).json(t)["type"]; got != "local" {
		t.Errorf("type = %v", got)
	}
	for _, name := range []string{"b", "c"} {
		p := s.get(t, configPath("mcp", dir, name)).problem(t, 400, "invalid_request")
		if detail := p["detail"].(string); !strings.Contains(detail, file) || !strings.Contains(detail, fmt.Sprintf("entry %q", name)) {
			t.Errorf("detail = %q", detail)
		}
	}
	s.put(t, configPath("mcp", dir, "d"), `{"type":"http","url":"u"}`).want(t, 204)
	var entries map[string]any
	if err := json.Unmarshal([]byte(configFile(t, dir, "mcp")), &entries); err != nil || len(entries) != 4 || entries["b"] != 17.0 {
		t.Errorf("entries = %v, %v", entries, err)
	}
}

// TestConfigDirectories: relative directories start at the program's working directory, ~ is the
// user's home. It changes what the whole program shares, so it is not parallel.
func TestConfigDirectories(t *testing.T) {
	home, work := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(work)
	s := serve(t, Config{})
	for given, want := range map[string]string{
		"~": home, "~/deep/er": filepath.Join(home, "deep/er"), ".": work, "sub": filepath.Join(work, "sub"),
		"sub/../other": filepath.Join(work, "other"),
	} {
		s.put(t, configPath("mcp", given, "a"), `{"type":"http","url":"u"}`).want(t, 204)
		if got := configFile(t, want, "mcp"); !strings.Contains(got, `"remote"`) {
			t.Errorf("%s: %s", given, got)
		}
	}
	for _, dir := range []string{home, work} {
		if _, err := os.Lstat(filepath.Join(dir, "~")); err == nil {
			t.Errorf("there is a ~ in %s", dir)
		}
	}
}

// TestConfigAtOnce sets one entry 100 times over HTTP, and at the same time as many
// different ones. The reference leaves a file that is not JSON (fault B10).
func TestConfigAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	const count = 100
	var all sync.WaitGroup
	for i := range 2 * count {
		name := "same"
		if i%2 == 0 {
			name = fmt.Sprintf("entry-%d", i)
		}
		all.Go(func() {
			body := fmt.Sprintf(`{"type":"local","command":"x","args":["%d","%s"]}`, i, strings.Repeat("x", i%100))
			a := s.try(t.Context(), call{method: "PUT", path: configPath("mcp", dir, name), body: body})
			if a.err != nil || a.StatusCode != 204 {
				t.Errorf("PUT of %s = %v %s", name, a.err, a.body)
			}
		})
	}
	all.Wait()
	var entries map[string]struct{ Args []string }
	if err := json.Unmarshal([]byte(configFile(t, dir, "mcp")), &entries); err != nil {
		t.Fatal(err)
	}
	if len(entries) != count+1 {
		t.Errorf("%d entries, want %d", len(entries), count+1)
	}
	for i := 0; i < 2*count; i += 2 {
		want := []string{fmt.Sprint(i), strings.Repeat("x", i%100)}
		if diff := cmp.Diff(want, entries[fmt.Sprintf("entry-%d", i)].Args); diff != "" {
			t.Errorf("entry %d (-want +got):\n%s", i, diff)
		}
	}
}
