package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/internal/benchscale"
	"github.com/deskhand/deskhand/internal/testpostgres"
	"github.com/deskhand/deskhand/internal/testspace"
)

// TestRollingRestart restarts two servers on one Postgres, one after the other, while clients prompt
// sessions and follow them: the clients notice nothing but that they have to connect again.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	dsn, dir := testpostgres.Start(t).DSN(), t.TempDir()
	const token = "the-token-of-all"
	start := func(name, port string) *server {
		s := serveAs(t, binary, environ(t), "server", "--port", port, "--token", token, "--database", dsn, "--drain-timeout", "1m",
			"--state-dir", dir+"/"+name, "--advertise", "http://127.0.0.1:"+port, "--proxy-sessions", "--gone-after", "5s")
		s.token = token
		return s
	}
	var ports [2]string
	var servers [2]*server
	for i := range servers {
		ports[i] = testspace.Port(t)
		servers[i] = start(fmt.Sprint(i), ports[i])
	}
	load := benchscale.NewLoad(token, servers[0].base, servers[1].base)
	if err := load.Create(t.Context(), 4, dir); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); load.Run(ctx) }()
	defer func() { stop(); <-ended }()
	progress := func(what string) {
		t.Helper()
		from, _, _ := load.Counts()
		poll(t, 2*readyLimit, what, func() string {
			if n, _, _ := load.Counts(); n < from+20 {
				return fmt.Sprintf("%d prompts only", n-from)
			}
			return ""
		})
	}
	progress("the clients prompt")
	for i, s := range servers {
		s.signal(t, syscall.SIGTERM)
		if s.state.ExitCode() != exitOK {
			t.Errorf("server %d ended with %v\n%s", i, s.state, &s.stderr)
		}
		progress("the clients go on with one server")
		servers[i] = start(fmt.Sprint(i), ports[i])
		progress("the clients go on with both")
	}
	stop()
	<-ended
	for _, s := range servers {
		if err := load.Check(t.Context(), s.base); err != nil {
			t.Error(err)
		}
	}
	acknowledged, uncertain, retries := load.Counts()
	t.Logf("%d prompts, %d requests at another server, not known: %q", acknowledged, retries, load.Uncertain())
	// A connection that the server has not accepted when it ends is reset by the kernel.
	if uncertain > len(servers) {
		t.Errorf("%d prompts have no known outcome: %q", uncertain, load.Uncertain())
	}
}

// TestFlagsOfServers checks what --advertise and --gone-after refuse.
func TestFlagsOfServers(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--advertise", "deskhand-0:2468"}, {"--advertise", "http://deskhand-0:2468/path"}, {"--advertise", "ftp://deskhand-0"}, {"--gone-after", "0s"},
	} {
		got := runCommandLine(t, environ(t), append([]string{"server"}, args...)...)
		if got.status != exitUsage || !strings.Contains(got.stderr, args[0]+" must be") {
			t.Errorf("%v: status %d, %s", args, got.status, got.stderr)
		}
	}
}
