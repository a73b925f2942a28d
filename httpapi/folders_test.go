package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// placeConfig writes a folder's file, as a repository brings it.
func placeConfig(t *testing.T, dir, kind, text string) {
	t.Helper()
	file := filepath.Join(dir, ".sandbox-agent", "config", kind+".json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestFoundConfig opens a session in a folder that brings a tool server, does what
// its problem says, and opens another one.
func TestFoundConfig(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	placeConfig(t, dir, "mcp", `{"evil & co":{"type":"stdio","command":"false"}}`)
	s.put(t, configPath("skills", dir, "mine"), `{"sources":[]}`).want(t, 204)
	session := func(id string) string {
		t.Helper()
		s.do(t, call{method: http.MethodPost, path: "/v1/sessions/" + id, body: `{"agent":"mock","directory":` + quoted(dir) + `}`}).want(t, 200)
		for _, one := range s.get(t, "/v1/sessions").want(t, 200).json(t)["sessions"].([]any) {
			info := one.(map[string]any)
			if info["sessionId"] != id && info["session_id"] != id {
				continue
			}
			var all []string
			problems, _ := info["problems"].([]any)
			for _, p := range problems {
				all = append(all, p.(string))
			}
			return strings.Join(all, "\n")
		}
		t.Fatal("no such session")
		return ""
	}
	problem := session("first")
	read := regexp.MustCompile(`read it with GET (\S+) and`).FindStringSubmatch(problem)
	approve := regexp.MustCompile(`approve it with POST (\S+), or start the server with --trust-folders `).FindStringSubmatch(problem)
	if read == nil || approve == nil {
		t.Fatalf("problems:\n%s", problem)
	}
	entries := s.get(t, read[1]).want(t, 200).json(t)["entries"].([]any)
	if len(entries) != 2 || entries[0].(map[string]any)["approved"] != false || entries[1].(map[string]any)["approved"] != true {
		t.Errorf("entries = %v", entries)
	}
	at := configPath("mcp", dir, "evil & co")
	before := s.get(t, at).want(t, 200)
	if before.Header.Get("Deskhand-Approved") != "false" || !strings.Contains(approve[1], strings.Trim(before.Header.Get("ETag"), `"`)) {
		t.Errorf("before: %v; %s", before.Header, approve[1])
	}
	for path, status := range map[string]int{
		"/v1/config/mcp/approve?" + url.Values{"directory": {dir}, "mcpName": {"evil & co"}, "hash": {"00"}}.Encode(): 409,
		"/v1/config/mcp/approve?" + url.Values{"directory": {dir}, "mcpName": {"other"}, "hash": {"00"}}.Encode():     404,
		"/v1/config/mcp/approve?" + url.Values{"directory": {dir}, "mcpName": {"evil & co"}}.Encode():                 400,
	} {
		s.do(t, call{method: http.MethodPost, path: path}).want(t, status)
	}
	s.do(t, call{method: http.MethodPost, path: approve[1]}).want(t, 204)
	after := s.get(t, at).want(t, 200)
	if after.Header.Get("Deskhand-Approved") != "true" || string(after.body) != string(before.body) {
		t.Errorf("after: %v %s", after.Header, after.body)
	}
	if problem := session("second"); strings.Contains(problem, "is not approved") {
		t.Errorf("problems after the approval:\n%s", problem)
	}
	placeConfig(t, dir, "mcp", `{"evil & co":{"type":"stdio","command":"true"}}`)
	if problem := session("third"); !strings.Contains(problem, "is not approved") {
		t.Errorf("problems after a change:\n%s", problem)
	}
	trusting := serve(t, Config{TrustFolders: []string{filepath.Dir(dir)}})
	if got := trusting.get(t, at).want(t, 200).Header.Get("Deskhand-Approved"); got != "true" {
		t.Errorf("in a trusted folder: %s", got)
	}
}

func quoted(text string) string { b, _ := plainjson.Marshal(text); return string(b) }

// TestDeepBodies: bodies that are nested deep are refused by name of the limit, and
// cost nothing. A PUT of 20 kB took 836 MB.
func TestDeepBodies(t *testing.T) {
	s := serveACP(t, Config{})
	dir := t.TempDir()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	at := configPath("mcp", dir, "a")
	entry := func(n int) string { return `{"type":"local","command":"x","more":` + nested(n) + `}` }
	s.put(t, at, entry(99)).want(t, 204)
	s.get(t, at).want(t, 200)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, c := range []call{
		{method: http.MethodPut, path: at, body: entry(9990)},
		{method: http.MethodPut, path: at, body: entry(100)},
		{method: http.MethodPost, path: "/v1/acp/deep?agent=scripted", body: `{"jsonrpc":"2.0","id":1,"method":"echo","params":` + nested(9990) + `}`},
		{method: http.MethodPost, path: "/v1/sessions/deep", body: `{"agent":"mock","skills":` + nested(9990) + `}`},
		{method: http.MethodPost, path: "/v1/processes", body: `{"command":"true","args":` + nested(9990) + `}`},
	} {
		p := s.do(t, c).problem(t, 400, "invalid_request")
		if detail := p["detail"].(string); !strings.Contains(detail, "at most 100 objects and arrays") {
			t.Errorf("%s %s: %s", c.method, c.path, detail)
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("used %d MB", used>>20)
	}
}
