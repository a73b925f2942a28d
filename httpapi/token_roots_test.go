package httpapi

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/filesystem"
)

// TestTokenRoots: a token of the scope supervise reaches the files of its roots and no others,
// also after a restart and after a root was exchanged for a link.
func TestTokenRoots(t *testing.T) {
	t.Parallel()
	state, recordings, top := t.TempDir(), t.TempDir(), t.TempDir()
	root, outside := filepath.Join(top, "root"), filepath.Join(top, "outside")
	for _, dir := range []string{root, outside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(filepath.Base(dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(root, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	s := serve(t, Config{StateDir: state, RecordingsDir: recordings})
	body := func(scope string, roots ...string) string {
		text, err := json.Marshal(map[string]any{"scope": scope, "roots": roots})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for request, want := range map[string]string{
		body("view", root):                                      "supervise",
		body("supervise", "relative"):                           "absolute",
		body("supervise", root+"/../root"):                      "absolute",
		body("supervise", "/"):                                  "below it",
		body("supervise", filepath.Join(top, "none")):           "not found",
		body("supervise", filepath.Join(root, "a.txt")):         "directory",
		body("supervise", filepath.Join(top, "link")):           "symbolic link",
		body("supervise", state):                                "overlaps",
		body("supervise", filepath.Dir(state)):                  "overlaps",
		body("supervise", recordings):                           "overlaps",
		body("supervise", root, filepath.Join(state, "tokens")): "t", // it need not exist
	} {
		p := s.post(t, "/v1/tokens", request).problem(t, 400, "invalid_request")
		if p["field"] != "roots" || !strings.Contains(p["detail"].(string), want) {
			t.Errorf("%s: %v, want %s", request, p, want)
		}
	}

	id, value := s.token(t, body("supervise", root))
	do := func(method, path, body string) answer {
		t.Helper()
		return s.do(t, call{method: method, path: path, body: body, header: bearer(value)})
	}
	if got := string(do("GET", "/v1/health", "").want(t, 200).body); !strings.Contains(got, root) {
		t.Errorf("health: %s", got)
	}
	if got := string(do("GET", "/v1/fs/file?path="+root+"/a.txt", "").want(t, 200).body); got != "root" {
		t.Errorf("a.txt has %q", got)
	}
	do("PUT", "/v1/fs/file?path=b.txt", "new").want(t, 200) // relative paths are below the first root
	if text, err := os.ReadFile(filepath.Join(root, "b.txt")); err != nil || string(text) != "new" {
		t.Errorf("b.txt has %q, %v", text, err)
	}
	refused := func() {
		t.Helper()
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/v1/fs/file?path=" + outside + "/a.txt", ""},
			{"GET", "/v1/fs/entries?path=" + top, ""},
			{"GET", "/v1/fs/search?path=" + outside + "&glob=*", ""},
			{"GET", "/v1/fs/watch?path=" + outside, ""},
			{"GET", "/v1/fs/archive?path=" + outside, ""},
			{"PUT", "/v1/fs/file?path=" + outside + "/b.txt", "x"},
			{"DELETE", "/v1/fs/entry?path=" + outside + "/a.txt", ""},
		} {
			do(c.method, c.path, c.body).problem(t, 403, "permission_denied")
		}
	}
	refused()
	ctx, cancel := context.WithCancel(t.Context())
	var watches []<-chan sse
	for range 32 {
		watches = append(watches, s.follow(ctx, t, "/v1/fs/watch?path="+root, bearer(value)))
	}
	do("GET", "/v1/fs/watch?path="+root, "").problem(t, 503, "stream_error")
	cancel()
	for _, w := range watches {
		for range w {
		}
	}
	_, none := s.token(t, `{"scope":"supervise"}`)
	if p := s.do(t, call{path: "/v1/fs/entries", header: bearer(none)}).problem(t, 403, "permission_denied"); !strings.Contains(p["detail"].(string), "roots") {
		t.Errorf("without roots: %v", p)
	}

	// The directory that was named is the one that stays open. After a restart it is opened anew.
	if err := os.Rename(root, root+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, root); err != nil {
		t.Fatal(err)
	}
	if got := string(do("GET", "/v1/fs/file?path="+root+"/a.txt", "").want(t, 200).body); got != "root" {
		t.Errorf("after the exchange, a.txt has %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = serve(t, Config{StateDir: state})
	do("GET", "/v1/fs/file?path="+root+"/a.txt", "").problem(t, 403, "permission_denied")
	refused()
	if list := string(s.get(t, "/v1/tokens").want(t, 200).body); !strings.Contains(list, root) || !strings.Contains(list, id) {
		t.Errorf("tokens: %s", list)
	}
}

// TestTokenRootsElsewhere: roots count only where a token with them could be made. Another server,
// or an earlier start with other flags, may have made it.
func TestTokenRootsElsewhere(t *testing.T) {
	t.Parallel()
	state, root, other := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, Config{StateDir: state})
	_, value := s.token(t, `{"scope":"supervise","roots":["`+root+`"]}`)
	read := func(cfg Config) answer {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		cfg.StateDir = state
		s = serve(t, cfg)
		return s.do(t, call{path: "/v1/fs/file?path=" + root + "/a.txt", header: bearer(value)})
	}
	read(Config{}).want(t, 200)
	for want, cfg := range map[string]Config{
		"overlaps": {RecordingsDir: filepath.Join(root, "recordings")},
		"outside":  {Roots: []filesystem.Root{{Name: "other", Path: other}}},
	} {
		if p := read(cfg).problem(t, 403, "permission_denied"); !strings.Contains(p["detail"].(string), want) {
			t.Errorf("%v, want %s", p, want)
		}
	}
	read(Config{}).want(t, 200)
}
