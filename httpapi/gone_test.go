package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/testx11"
)

// typingTerminal is a terminal on the desktop that copies the lines typed into it
// to a file.
func typingTerminal(t *testing.T, s *testServer) (path string) {
	t.Helper()
	testx11.Require(t, "xterm")
	path = filepath.Join(t.TempDir(), "typed")
	s.post(t, "/v1/desktop/launch", fmt.Sprintf(`{"app":"xterm","args":["-e","sh","-c","cat > %s"],"wait":true}`, path)).want(t, 200)
	eventually(t, "the terminal runs its program", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	return path
}

// longTyping takes minutes.
var longTyping = `{"text":"` + strings.Repeat(`x\n`, 2000) + `","delayMs":100}`

// begins waits until typing that goes to a file has begun, which start does.
func begins(t *testing.T, path string, start func()) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	go start()
	eventually(t, "typing begins", func() bool { return size() > before })
}

// TestTypingEndsWithItsRequest: typing ends when its client disconnects.
func TestTypingEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{}`)
	path := typingTerminal(t, s)
	mounted := httptest.NewServer(s.Handler())
	defer mounted.Close()
	for name, url := range map[string]string{"Serve": s.url, "Handler": mounted.URL} {
		client := &testServer{s.Server, url, s.client}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		begins(t, path, func() { left <- client.try(ctx, call{path: "/v1/desktop/keyboard/type", body: longTyping}).err })
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: the request that was given up: %v", name, err)
		}
		s.post(t, "/v1/desktop/mouse/move", `{"x":10,"y":10}`).want(t, 200)
	}
}

// leave sends a request, waits until it has begun, closes its connection, and waits until the server has
// closed it as well. Until then the handler runs.
func (s *testServer) leave(t *testing.T, c call, what string, begun func() bool) {
	t.Helper()
	s.client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- s.try(ctx, c).err }()
	eventually(t, what, begun)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("the request that was given up: %v", err)
	}
	start := time.Now()
	eventually(t, "end of the abandoned "+c.path, func() bool { return rest.OpenConnections(s.rest) == 0 })
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("%s ended %v after its client", c.path, took)
	}
}

// TestProcessesAfterTheirClients: a program of run ends when its client disconnects. So does the wait
// of a stop, but not the stop.
func TestProcessesAfterTheirClients(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	file := filepath.Join(t.TempDir(), "pid")
	exists := func(path string) func() bool {
		return func() bool { _, err := os.Stat(path); return err == nil }
	}
	run := call{path: "/v1/processes/run", body: shell("echo $$ >"+file+"; exec sleep 3600", `,"timeoutMs":300000`)}
	s.leave(t, run, "start of the program", exists(file))
	pid := number(t, file)
	eventually(t, "end of the program", func() bool { return gone(pid) })

	for _, wait := range []string{"3600000", "5000"} {
		dir := t.TempDir()
		pids, told := filepath.Join(dir, "pid"), filepath.Join(dir, "told")
		id := s.create(t, shell("trap 'touch "+told+"' TERM; echo $$ >"+pids+"; while :; do sleep 0.1; done", ""))["id"].(string)
		pid := number(t, pids)
		s.leave(t, call{method: http.MethodPost, path: "/v1/processes/" + id + "/stop?waitMs=" + wait}, "SIGTERM", exists(told))
		if wait == "3600000" {
			if gone(pid) {
				t.Error("the program was killed when the client disconnected")
			}
			s.do(t, call{method: http.MethodPost, path: "/v1/processes/" + id + "/kill"}).want(t, 200)
		}
		eventually(t, "SIGKILL", func() bool { return gone(pid) })
	}
}

// TestSearchEndsWithItsRequest: a search ends when its client disconnects.
func TestSearchEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "long")
	if err := os.WriteFile(file, bytes.Repeat([]byte(strings.Repeat("a", 1000)+"\n"), 15_000), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() bool {
		links, _ := filepath.Glob("/proc/self/fd/*")
		return slices.ContainsFunc(links, func(link string) bool {
			path, _ := os.Readlink(link)
			return path == file
		})
	}
	const slow = "(a?){60}[bc]"
	s.leave(t, call{path: "/v1/fs/search?" + url.Values{"path": {dir}, "regexp": {slow}, "timeoutMs": {"300000"}}.Encode()}, "search", open)
	s.leave(t, call{path: "/opencode/find?" + url.Values{"directory": {dir}, "pattern": {slow}}.Encode()}, "search", open)
}

// TestTypingIsEnded by a release of all input, and by control that is taken: its
// answer says how far it came.
func TestTypingIsEnded(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{}`)
	path := typingTerminal(t, s)
	for _, test := range []struct {
		path, body, code string
	}{
		{"/v1/desktop/input/release", "", "desktop_input_failed"},
		{"/v1/desktop/control/take", `{"force":true}`, "control_held"},
	} {
		typed := make(chan answer, 1)
		begins(t, path, func() {
			typed <- s.try(t.Context(), call{path: "/v1/desktop/keyboard/type", body: longTyping, header: map[string]string{"Deskhand-Actor": "robot"}})
		})
		s.post(t, test.path, test.body).want(t, 200)
		p := (<-typed).problem(t, http.StatusConflict, test.code)
		details, _ := p["details"].(map[string]any)
		if progress, _ := details["progress"].(string); !strings.HasSuffix(progress, "of 4000 characters were typed") {
			t.Errorf("%s: typing was answered %v, want how far it came", test.path, p)
		}
		s.post(t, "/v1/desktop/mouse/move", `{"x":10,"y":10}`).want(t, 200)
	}
}

// TestLongCallIsAnswered: watching a connection takes nothing from its answer.
func TestLongCallIsAnswered(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{}`)
	path := typingTerminal(t, s)
	for range 2 {
		s.post(t, "/v1/desktop/keyboard/type", `{"text":"0123456789\n","delayMs":100}`).want(t, 200)
	}
	eventually(t, "what was typed is there", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && string(text) == "0123456789\n0123456789\n"
	})
}
