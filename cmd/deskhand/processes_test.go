package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/testx11"
)

// daemons is what starts a program in a terminal, one with pipes that ignores
// SIGTERM, and under both a daemon: a session of its own whose parent has ended.
var daemons = []string{
	`{"command":"sh","args":["-c","setsid sleep 300 & sleep 300"],"tty":true}`,
	`{"command":"sh","args":["-c","trap '' TERM; (setsid sleep 300 &); while :; do sleep 300; done"]}`,
}

// startDaemons returns what then runs below the server.
func (s *server) startDaemons(t *testing.T, mark string) []process {
	t.Helper()
	for _, body := range daemons {
		s.ask(t, "/v1/processes", body, nil)
	}
	// A run's own left-over counts, too.
	s.ask(t, "/v1/processes/run", `{"command":"sh","args":["-c","setsid sleep 300 >/dev/null 2>&1 & true"]}`, nil)
	var list []process
	poll(t, readyLimit, "five programs run", func() string {
		list = slices.DeleteFunc(marked(t, mark), func(p process) bool { return p.name != "sleep" })
		if len(list) < 5 {
			return fmt.Sprint(list)
		}
		return ""
	})
	return list
}

// TestNoProcessOutlivesTheServer ends and kills servers that run programs for
// clients.
func TestNoProcessOutlivesTheServer(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := environ(t)
			s := serve(t, env)
			started := s.startDaemons(t, home(env))
			if took := s.signal(t, sig); took > stopLimit {
				t.Errorf("it took %v to end, want at most %v", took, stopLimit)
			}
			if sig == syscall.SIGKILL {
				serve(t, env)
			}
			wantGone(t, started)
			if left := marked(t, home(env)); sig == syscall.SIGTERM && len(left) > 0 {
				t.Errorf("left running: %v", left)
			}
		})
	}
}

// TestDesktopEndsHidden stops a desktop of another user. That ends a process that has left its
// session and its parent and has cleared its environment.
func TestDesktopEndsHidden(t *testing.T) {
	t.Parallel()
	testx11.Require(t)
	if os.Getuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	s := serve(t, environ(t), "--desktop-user", "www-data")
	s.ask(t, "/v1/desktop/start", "{}", nil)
	seconds := strconv.Itoa(1e9 + os.Getpid())
	s.ask(t, "/v1/desktop/launch", `{"app":"sh","args":["-c","setsid -f env -i sleep `+seconds+`"]}`, nil)
	var hidden []process
	poll(t, readyLimit, "the process hides", func() string {
		all, _ := snapshot(t)
		for _, p := range all {
			if procFile(p.pid, "cmdline") == "sleep\x00"+seconds+"\x00" {
				hidden = []process{p}
				return ""
			}
		}
		return "there is none"
	})
	if !strings.Contains(procFile(hidden[0].pid, "cgroup"), "/deskhand_users-") {
		t.Skip("no control groups of version 2 can be made here")
	}
	s.ask(t, "/v1/desktop/stop", "{}", nil)
	if all, _ := snapshot(t); all[hidden[0].pid] == hidden[0] {
		t.Error("the process outlives the desktop")
	}
}

// TestProcessesDoNotSeeTheToken, neither in their environment nor in the
// server's command line.
func TestProcessesDoNotSeeTheToken(t *testing.T) {
	t.Parallel()
	const token = "token-of-the-test"
	for name, tt := range map[string]struct{ env, args []string }{
		"environment":  {env: []string{"DESKHAND_TOKEN=" + token, "SANDBOX_AGENT_TOKEN=" + token}},
		"command line": {args: []string{"--token", token}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, environ(t, tt.env...), tt.args...)
			s.token = token
			var got struct{ Stdout, Stderr string }
			s.ask(t, "/v1/processes/run", `{"command":"sh","args":["-c","env; tr '\\0' ' ' </proc/$PPID/cmdline"]}`, &got)
			if !strings.Contains(got.Stdout, "PATH=") || !strings.Contains(got.Stdout, "server") {
				t.Fatalf("the program printed %q %q", got.Stdout, got.Stderr)
			}
			if strings.Contains(got.Stdout, token) {
				t.Errorf("a process sees the token: %s", got.Stdout)
			}
		})
	}
}

// TestEnvPolicy: with clean, processes see nothing of the server's environment
// but what every program needs.
func TestEnvPolicy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]bool{"inherit": true, "clean": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			s := serve(t, environ(t, "OPENAI_API_KEY=sk-something"), "--env-policy", policy)
			var got struct{ Stdout string }
			s.ask(t, "/v1/processes/run", `{"command":"env","env":{"MINE":"yes"}}`, &got)
			if !strings.Contains(got.Stdout, "MINE=yes\n") || !strings.Contains(got.Stdout, "HOME=") {
				t.Errorf("environment: %s", got.Stdout)
			}
			if strings.Contains(got.Stdout, "OPENAI_API_KEY") != want {
				t.Errorf("a provider's key is there: %v, want %v", !want, want)
			}
		})
	}
}

// TestOpenFilesOfProcesses starts a server with a low limit of open files, which it raises for
// itself alone.
func TestOpenFilesOfProcesses(t *testing.T) {
	t.Parallel()
	const script = `ulimit -Sn 256 && ulimit -Hn 4096 && exec "$@"`
	s := serveAs(t, "sh", environ(t), "-c", script, "sh", binary, "server", "--port", "0")
	var limit unix.Rlimit
	if err := unix.Prlimit(s.pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil || limit.Cur <= 256 {
		t.Errorf("the server's own limit is %d, %v, want more than 256", limit.Cur, err)
	}
	var run struct{ Stdout string }
	s.ask(t, "/v1/processes/run", `{"command":"sh","args":["-c","ulimit -Sn; ulimit -Hn"]}`, &run)
	if run.Stdout != "256\n4096\n" {
		t.Errorf("a process has the limits %q", run.Stdout)
	}
}
