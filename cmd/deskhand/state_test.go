package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stubborn is an agent that makes a session, and ends neither with its input nor
// when it is told to.
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
