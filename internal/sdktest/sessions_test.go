package sdktest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".local", "share", "sandbox-agent", "bin", "agent_processes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %q mock-agent-process\n", binary)
	if err := os.WriteFile(filepath.Join(dir, "mock-acp"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}
