package main

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/internal/testspace"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestFullDisk starts a server whose state directory is on a full disk, checks that
// every route that writes says so, and deletes a file through the server.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	disk := testspace.Disk(t, "48m")
	if disk == "" {
		return
	}
	env := environ(t)
	for name, used := range map[string]bool{"first start": false, "later start": true} {
		state := filepath.Join(disk, strings.ReplaceAll(name, " ", "-"))
		if used {
			s := serve(t, env, "--state-dir", state)
			s.ask(t, "/v1/sessions/kept", `{"agent":"mock"}`, nil)
			s.signal(t, syscall.SIGTERM)
		}
		ballast := filepath.Join(disk, "ballast")
		if err := fill(ballast); err != nil {
			t.Fatal(err)
		}
		s := serve(t, env, "--state-dir", state)
		send := func(method, path, body string) (int, string) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+s.token)
			req.Header.Set("Content-Type", "application/json")
			res, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var text bytes.Buffer
			_, _ = text.ReadFrom(res.Body)
			return res.StatusCode, text.String()
		}
		file := "/v1/fs/file?path=" + url.QueryEscape(filepath.Join(disk, "new"))
		folder := "directory=" + url.QueryEscape(disk)
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/v1/sessions/new", `{"agent":"mock"}`},
			{"POST", "/v1/tokens", `{"scope":"view"}`},
			{"PUT", file, strings.Repeat("x", 1<<20)},
			{"PUT", "/v1/config/mcp?mcpName=x&" + folder, `{"type":"local","command":"true"}`},
			{"POST", "/v1/desktop/start", `{}`},
			{"POST", "/v1/processes", `{"command":"true"}`},
		} {
			if status, text := send(c.method, c.path, c.body); status != http.StatusInsufficientStorage || !strings.Contains(text, "urn:sandbox-agent:error:") {
				t.Errorf("%s: %s %s: %d %s", name, c.method, c.path, status, text)
			}
		}
		for _, path := range []string{"/v1/desktop/status", "/v1/desktop/recordings", "/v1/processes", "/v1/tokens"} {
			if status, text := send("GET", path, ""); status != http.StatusOK {
				t.Errorf("%s: %s: %d %s", name, path, status, text)
			}
		}
		if status, text := send("DELETE", "/v1/fs/entry?path="+url.QueryEscape(ballast), ""); status != http.StatusOK {
			t.Errorf("%s: delete: %d %s", name, status, text)
		}
		s.ask(t, "/v1/tokens", `{"scope":"view"}`, nil)
		s.ask(t, "/v1/sessions/after", `{"agent":"mock"}`, nil)
		s.ask(t, "/v1/sessions/after/events", "", nil)
		s.signal(t, syscall.SIGTERM)
		if err := os.RemoveAll(state); err != nil {
			t.Fatal(err)
		}
	}
}

// fill writes a file until the disk takes no more byte.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		err = nil
	}
	return nil
}
