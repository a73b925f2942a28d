package main

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// stubborn is an agent that makes a session, and ends neither with its input nor by
// SIGTERM.
const stubborn = `#!/bin/sh
trap '' TERM
while :; do
	while read -r line; do
		id=${line#*'"id":'}
		case $line in
		*initialize*) result='{"protocolVersion":1,"agentCapabilities":{}}' ;;
		*) result='{"sessionId":"s"}' ;;
		esac
		printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "${id%%[,\}]*}" "$result"
	done
	sleep 0.1
done
`

// TestRestart starts a server while the one before ends, at the same port: it
// has the sessions of that one.
func TestRestart(t *testing.T) {
	t.Parallel()
	env := environ(t)
	dir := t.TempDir()
	agent := writeFile(t, filepath.Join(dir, "stubborn"), stubborn, 0o700)
	config := writeFile(t, filepath.Join(dir, "agents.json"), fmt.Sprintf(`{"agents":{"stubborn":{"command":[%q]}}}`, agent), 0o600)
	first := serve(t, env, "--agents-config", config, "--no-token")
	first.ask(t, "/v1/sessions/keep", `{"agent":"stubborn","directory":"/tmp"}`, nil)
	stays := named(t, first.pid, "stubborn")
	if err := syscall.Kill(first.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(first.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	poll(t, readyLimit, "the port is free", func() string {
		c, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err.Error()
		}
		c.Close()
		return ""
	})
	select {
	case <-first.ended:
		t.Fatal("the agent is not stubborn")
	default:
	}
	second := serve(t, env, "--agents-config", config, "--no-token", "--port", port)
	if all, _ := snapshot(t); all[stays.pid] == stays {
		t.Error("the second server did not wait for the first: its agent runs")
	}
	select {
	case <-first.ended:
	case <-time.After(readyLimit): // it lets go of the directory a moment before it ends
		t.Error("the first server goes on beside the second")
	}
	if !strings.Contains(second.stderr.String(), "waits until the server ends") {
		t.Errorf("it does not say what it waits for: %s", &second.stderr)
	}
	var list struct{ Sessions []struct{ SessionID string } }
	second.ask(t, "/v1/sessions", "", &list)
	if len(list.Sessions) != 1 || list.Sessions[0].SessionID != "keep" {
		t.Errorf("sessions after the restart: %+v", list)
	}
	busy := runCommandLine(t, env, "server", "--port", "0", "--no-token")
	if busy.status != exitFailure || !strings.Contains(busy.stderr, "choose another directory with --state-dir") {
		t.Errorf("a server at any port beside it: %+v", busy)
	}
}

// left is what there is in a server's directory of desktops, down to what each has.
func left(t *testing.T, env []string) (names []string) {
	t.Helper()
	dir := filepath.Join(strings.TrimPrefix(home(env), "HOME="), "state", "deskhand", "desktops")
	for _, pattern := range []string{"*", "*/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
	}
	slices.Sort(names)
	return names
}

// TestFilesAfterKill kills a server. The next one removes the files of desktops whose
// ids the server chose, and keeps the files of desktops that a client named.
func TestFilesAfterKill(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	env := environ(t)
	s := serve(t, env)
	var info struct{ ID string }
	for _, body := range []string{`{"id":"mine","width":320,"height":240}`, `{"width":320,"height":240}`} {
		if _, created := s.call(t, "/v1/desktops", body); json.Unmarshal(created, &info) != nil || info.ID == "" {
			t.Fatalf("%s", created)
		}
	}
	if got := left(t, env); !slices.Contains(got, info.ID+"/home") || !slices.Contains(got, "mine/home") {
		t.Fatalf("files of desktops: %q", got)
	}
	s.signal(t, syscall.SIGKILL)
	next := serve(t, env)
	got := left(t, env)
	if !slices.Contains(got, "mine/home") || strings.Contains(strings.Join(got, " "), info.ID) {
		t.Errorf("left after the kill: %q, want what is of mine alone", got)
	}
	var list struct{ Recorded []string }
	if next.ask(t, "/v1/desktops", "", &list); list.Recorded != nil {
		t.Errorf("recorded: %q", list.Recorded)
	}
}
