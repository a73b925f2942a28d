package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// located is an agent that writes its working directory, PWD and the folder of its session to
// the file starts in its home.
const located = `#!/bin/sh
started="$(pwd -P) $(tr '\0' '\n' </proc/$$/environ | grep '^PWD=')"
while read -r line; do
	id=${line#*'"id":'}
	case $line in
	*initialize*) result='{"protocolVersion":1,"agentCapabilities":{}}' ;;
	*) result='{"sessionId":"s"}'; started="$started ${line#*'"cwd":'}" ;;
	esac
	echo "$started" >>"$HOME/starts"
	printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "${id%%[,\}]*}" "$result"
done
`

// TestAgentsStartAtHome starts a server in a folder, with an agent whose command is relative to
// that folder. No route starts the agent there, because agents load configuration from their
// working directory.
func TestAgentsStartAtHome(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "located"), located, 0o700)
	writeFile(t, filepath.Join(folder, "agents.json"), `{"agents":{"located":{"command":["./located"]}}}`, 0o600)
	env := environ(t, "PWD="+folder)
	at := strings.TrimPrefix(home(env), "HOME=")
	cmd := exec.Command(binary, "server", "--port", "0", "--no-token", "--agents-config", "agents.json")
	cmd.Env, cmd.Dir = env, folder
	s := serveCommand(t, cmd)
	const (
		initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`
		started    = "%[1]s PWD=%[1]s"
		opened     = started + ` "%[2]s"`
	)
	for _, c := range []struct{ path, body, want string }{
		{"/v1/sessions/one", `{"agent":"located","directory":"/usr"}`, fmt.Sprintf(opened, at, "/usr")},
		{"/v1/acp/two?agent=located", initialize, fmt.Sprintf(started, at)},
		{"/v1/agents/located/acp", initialize, fmt.Sprintf(started, at)},
		{"/v1/agents/located?config=true&no_cache=true", "", fmt.Sprintf(opened, at, at)},
	} {
		if status, answer := s.call(t, c.path, c.body); status != http.StatusOK {
			t.Fatalf("%s: %d: %s", c.path, status, answer)
		}
		text, err := os.ReadFile(filepath.Join(at, "starts"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if got := lines[len(lines)-1]; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: the agent started in %q, want %q", c.path, got, c.want)
		}
	}
}
