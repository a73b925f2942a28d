package httpapi

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestBodiesEndWithToken: a request whose body is complete only after its token was revoked
// does nothing.
func TestBodiesEndWithToken(t *testing.T) { //nolint:paralleltest // it sets a variable
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	s := serve(t, Config{})
	stored := func() bool { return openBelow(t, dir) > 0 }
	buffered := func() bool { return s.rest.Bodies.Size() > 0 }
	for name, c := range map[string]struct {
		method, path, body string
		begun              func() bool
	}{
		"file":    {"PUT", fsPath("file", "path", filepath.Join(dir, "file")), "", stored},
		"process": {"POST", "/v1/processes", fmt.Sprintf(`{"command":"touch","args":[%q]}`, filepath.Join(dir, "process")), buffered},
		"sandbox": {"POST", "/opencomputer/api/sandboxes", "{}", buffered},
	} {
		id, value := s.token(t, `{"scope":"admin"}`)
		conn := dialServer(t, s)
		conn.send("%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			c.method, c.path, value, 1<<20, c.body+strings.Repeat(" ", 1<<20-1-len(c.body)))
		eventually(t, "the body arrives", c.begun)
		s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
		conn.send(" ")
		if a := conn.answer(); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s %s", name, a.Status, a.body)
		}
	}
	if list := s.get(t, "/v1/processes").want(t, 200).json(t)["processes"].([]any); len(list) > 0 {
		t.Errorf("there are processes: %v", list)
	}
	if files := allFiles(t, dir); len(files) > 0 || present(filepath.Join(home, "sandboxes")) {
		t.Errorf("there are files: %q, %q", files, allFiles(t, home))
	}
}
