package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowNPM makes npm one that waits, in the middle of an install, for a line in
// the file that is returned: whether it is to succeed.
func slowNPM(t *testing.T, cfg *Config) (gate string) {
	t.Helper()
	dir := t.TempDir()
	gate = filepath.Join(dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"node": "#!/bin/sh\necho v22.0.0\n",
		"npm": `#!/bin/sh
case $1 in
install) echo '{"packages":{}}' >package-lock.json ;;
ci)
	read -r how <` + gate + `
	[ "$how" = good ] || { echo npm error code ENOSPC >&2; exit 1; }
	/bin/mkdir -p node_modules/@google/gemini-cli/bundle
	cd node_modules/@google/gemini-cli
	echo '{"version":"0.61.0"}' >package.json
	echo >bundle/gemini.js ;;
esac
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Agents.Env = []string{"HOME=" + t.TempDir(), "PATH=" + dir}
	return gate
}

// beginInstall is beginLong of an install.
func (s *testServer) beginInstall(t *testing.T) io.Reader {
	t.Helper()
	return s.beginLong(t, "/v1/agents/gemini/install", "{}")
}

// beginLong begins a request whose response begins before its end, and returns the
// rest of that.
func (s *testServer) beginLong(t *testing.T, path, body string) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.Token())
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("the response begins with %s, %v", res.Status, res.Header)
	}
	var first [1]byte
	if _, err := io.ReadFull(res.Body, first[:]); err != nil || first[0] != '\n' {
		t.Fatalf("the body begins with %q, %v", first, err)
	}
	return res.Body
}

// A response to an install begins before clients give up on it, and has the
// result, or why there is none, in the end.
func TestLongInstall(t *testing.T) {
	t.Parallel()
	cfg := agentsConfig(t)
	gate := slowNPM(t, &cfg)
	s := serve(t, cfg)
	s.rest.Early, s.rest.Beat = 20*time.Millisecond, 30*time.Millisecond
	for _, c := range []struct{ how, want string }{
		{"bad", `{"type":"urn:sandbox-agent:error:install_failed","title":"Install Failed","status":500,"detail":"install failed: gemini: `},
		{"good", `{"already_installed":false,"artifacts":[{"kind":"native_agent","path":"` + cfg.Agents.Dir + `/gemini/0.61.0/`},
	} {
		rest := s.beginInstall(t)
		if err := os.WriteFile(gate, []byte(c.how+"\n"), 0); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(rest)
		if err != nil || !strings.HasPrefix(strings.TrimSpace(string(text)), c.want) {
			t.Errorf("%s: %s, %v", c.how, text, err)
		}
	}
	if got := s.post(t, "/v1/agents/gemini/install", "{}").want(t, 200); string(bytes.TrimSpace(got.body)) != `{"already_installed":true,"artifacts":[]}` {
		t.Errorf("again: %s", got.body)
	}
}

// An install ends with the server, and its client is told.
func TestLongInstallEnds(t *testing.T) {
	t.Parallel()
	cfg := agentsConfig(t)
	slowNPM(t, &cfg)
	s := serve(t, cfg)
	s.rest.Early = time.Millisecond
	rest := s.beginInstall(t)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	text, err := io.ReadAll(rest)
	if err != nil || !strings.Contains(string(text), `"status":503`) {
		t.Errorf("the end: %s, %v", text, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(cfg.Agents.Dir, "gemini", "0*")); err != nil || len(left) > 0 {
		t.Errorf("it was installed: %q, %v", left, err)
	}
}
