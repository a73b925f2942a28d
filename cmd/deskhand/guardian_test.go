package main

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endLimit is how long anything may live after the server was killed: 1 s, and
// what this machine takes to find out while it runs other tests.
const endLimit = 3 * time.Second

// strays starts processes that leave a child's process group, session and tree,
// and clear their environment, and returns them.
func strays(t *testing.T, s *server) []process {
	t.Helper()
	word := strings.ToLower(rand.Text())
	bin := filepath.Join(t.TempDir(), word)
	sleep, err := os.ReadFile("/bin/sleep")
	if err == nil {
		err = os.WriteFile(bin, sleep, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	script := `
B 1000 &
setsid B 1001 &
env -i setsid sh -c "B 1002 & B 1003 & exit" </dev/null >/dev/null 2>&1
(env -i setsid setsid B 1004 </dev/null >/dev/null 2>&1 &)
exec B 1005`
	body, err := json.Marshal(map[string]any{"command": "sh", "args": []string{"-c", strings.ReplaceAll(script, "B ", bin+" ")}})
	if err != nil {
		t.Fatal(err)
	}
	s.ask(t, "/v1/processes", string(body), nil)
	var list []process
	poll(t, readyLimit, "they run", func() string {
		list = running(t, word)
		if len(list) == 6 {
			return ""
		}
		return strconv.Itoa(len(list))
	})
	return list
}

// running are the processes whose program has that name.
func running(t *testing.T, name string) []process {
	t.Helper()
	all, _ := snapshot(t)
	var list []process
	for _, p := range all {
		if exe, err := os.Readlink("/proc/" + strconv.Itoa(p.pid) + "/exe"); err == nil && filepath.Base(exe) == name {
			list = append(list, p)
		}
	}
	return list
}

func isGuardian(p process) bool {
	return strings.HasPrefix(procFile(p.pid, "cmdline"), "deskhand-guardian\x00")
}

// guardianOf returns the guardian of a server.
func guardianOf(t *testing.T, s *server) process {
	t.Helper()
	all, parent := snapshot(t)
	for _, p := range all {
		if parent[p.pid] == s.pid && isGuardian(p) {
			return p
		}
	}
	t.Fatal("the server has no guardian")
	return process{}
}

// wantEnded fails unless these processes end soon.
func wantEnded(t *testing.T, list []process) {
	t.Helper()
	begun := time.Now()
	poll(t, endLimit, "nothing is left", func() string {
		all, _ := snapshot(t)
		left := slices.DeleteFunc(slices.Clone(list), func(p process) bool { return all[p.pid] != p })
		if len(left) == 0 {
			return ""
		}
		return strconv.Itoa(len(left)) + " of " + strconv.Itoa(len(list)) + " run"
	})
	t.Logf("nothing is left %v after the kill", time.Since(begun))
}

// TestGuardian kills a server whose processes hide from it, and checks that they end
// without another server.
func TestGuardian(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	list := append(strays(t, s), guardianOf(t, s))
	s.signal(t, syscall.SIGKILL)
	wantEnded(t, list)
}

// TestGuardianReplaced kills the guardian before its server.
func TestGuardianReplaced(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	list, first := strays(t, s), guardianOf(t, s)
	if err := syscall.Kill(first.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll(t, readyLimit, "another guardian is started", func() string {
		for _, p := range descendants(t, s.pid) {
			if p != first && isGuardian(p) {
				return ""
			}
		}
		return "log: " + s.stderr.String()
	})
	s.signal(t, syscall.SIGKILL)
	wantEnded(t, list)
}

// TestGuardianSize wants the guardian to be small.
func TestGuardianSize(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	g := guardianOf(t, s)
	poll(t, readyLimit, "it waits", func() string {
		if strings.Contains(procFile(g.pid, "wchan"), "pipe") || strings.Contains(procFile(g.pid, "syscall"), "0x3 ") {
			return ""
		}
		return procFile(g.pid, "status")
	})
	for line := range strings.Lines(procFile(g.pid, "status")) {
		if f := strings.Fields(line); f[0] == "RssAnon:" {
			if kB, err := strconv.Atoi(f[1]); err != nil || kB == 0 || kB >= 3<<10 {
				t.Errorf("memory of its own: %s", line)
			}
			t.Log(strings.TrimSpace(line))
		}
	}
	if env := procFile(g.pid, "environ"); env != "GOMAXPROCS=1\x00" {
		t.Errorf("its environment is %q", env)
	}
	s.signal(t, syscall.SIGTERM)
	wantGone(t, []process{g})
}

// TestHangup wants SIGHUP to end a server as SIGTERM does.
func TestHangup(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	list := append(strays(t, s), guardianOf(t, s))
	s.signal(t, syscall.SIGHUP)
	if s.state.ExitCode() != exitOK {
		t.Errorf("it ended with %v, want status 0\n%s", s.state, &s.stderr)
	}
	wantEnded(t, list)
}
