package sdktest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSessions calls the SDK's methods of agents and their sessions, with the
// mock agent. In the middle the server is killed and started again.
func TestSessions(t *testing.T) {
	t.Parallel()
	modules := required(t)
	home := t.TempDir()
	if reference {
		mockFor(t, home)
	}
	server := startServer(t, modules, Config{Home: home})
	runScripts(t, server, modules, "sessions.test.mjs", "SDKTEST_CRASH="+crasher(t, server))
}

// crasher returns a URL at which scripts have the server killed and started
// again.
func crasher(t *testing.T, server *Server) string {
	t.Helper()
	crash := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := server.Crash(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(crash.Close)
	return crash.URL
}

// mockFor gives the reference server this tree's mock agent. Its own knows
// nothing of sessions.
func mockFor(t *testing.T, home string) {
	t.Helper()
	launchMock(t, home, "mock")
}

// launchMock has this tree's mock agent started in place of an agent.
func launchMock(t *testing.T, home, agent string) {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".local", "share", "sandbox-agent", "bin", "agent_processes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %q mock-agent-process\n", binary)
	if err := os.WriteFile(filepath.Join(dir, agent+"-acp"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestGuide runs the programs of docs/clients.md, and compares them with the page.
func TestGuide(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("the reference has no log")
	}
	modules := required(t)
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("sdk/guide.mjs")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```js\n")[1:]
	if len(blocks) < 3 {
		t.Errorf("the page has %d programs", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(string(program), block) {
			t.Errorf("guide.mjs does not have this program of the page:\n%s", block)
		}
	}
	server := startServer(t, modules, Config{})
	runScripts(t, server, modules, "guide.test.mjs")
}
