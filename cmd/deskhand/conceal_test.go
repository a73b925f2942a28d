package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// unprivileged returns an environment of a user who is not root, and the command
// line before which programs run as that user.
func unprivileged(t *testing.T) (env, prefix []string) {
	t.Helper()
	if _, err := exec.LookPath("setpriv"); err != nil || os.Geteuid() != 0 {
		t.Skip("this takes root and setpriv to become another user")
	}
	env = environ(t)
	dir := strings.TrimPrefix(home(env), "HOME=")
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	return env, []string{"setpriv", "--reuid=" + strconv.Itoa(stranger), "--regid=" + strconv.Itoa(stranger), "--clear-groups"}
}

// stranger is a user id without a name that only this process uses. The kernel
// counts the processes of a user on the whole machine.
var stranger = 1<<24 + os.Getpid()

// serveUnprivileged runs a server as another user than root.
func serveUnprivileged(t *testing.T, more []string, args ...string) *server {
	t.Helper()
	env, prefix := unprivileged(t)
	line := append(append(prefix, binary, "server", "--port", "0"), args...)
	return serveAs(t, line[0], append(env, more...), line[1:]...)
}

// TestConcealed checks that processes with the server's user id can neither read its
// environment and memory nor trace it, and that root sees no secrets.
func TestConcealed(t *testing.T) {
	t.Parallel()
	const password = "do-not-tell-the-password"
	s := serveUnprivileged(t, []string{
		"DESKHAND_TOKEN=" + secret, "EXAMPLE_API_KEY=" + secret, "EXAMPLE_URL=https://me:" + password + "@a.example", "EXAMPLE=plain",
	})
	s.token = secret
	s.ask(t, "/v1/health", "", nil)
	// A descendant of the server's tries.
	script := `cd /proc/` + strconv.Itoa(s.pid) + `; for f in environ mem maps fd/0 exe; do
		if head -c 1 $f >/dev/null 2>&1 || ls fd >/dev/null 2>&1; then echo "$f can be read"; fi; done; id -u; test -r status && echo tried`
	body, err := json.Marshal(map[string]any{"command": "sh", "args": []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	var run struct{ Stdout string }
	s.ask(t, "/v1/processes/run", string(body), &run)
	if run.Stdout != strconv.Itoa(stranger)+"\ntried\n" {
		t.Errorf("a child says %q", run.Stdout)
	}
	var child struct{ Stdout string }
	s.ask(t, "/v1/processes/run", `{"command":"sh","args":["-c","head -c 1 /proc/$$/environ >/dev/null && cat /proc/$$/environ"]}`, &child)
	if !strings.Contains(child.Stdout, "EXAMPLE=plain") || !strings.Contains(child.Stdout, "EXAMPLE_API_KEY="+secret) {
		t.Errorf("the child's own environment is %q", child.Stdout)
	}
	shown := procFile(s.pid, "environ") // for root
	if strings.Contains(shown, secret) || strings.Contains(shown, password) || !strings.Contains(shown, "EXAMPLE=plain") {
		t.Errorf("root sees %q", shown)
	}
	if err := traceAs(stranger, s.pid); err != syscall.EPERM {
		t.Errorf("tracing it: %v, want EPERM", err)
	}
}

// traceAs attaches to a process as another user.
func traceAs(uid, pid int) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		for _, call := range []uintptr{syscall.SYS_SETRESGID, syscall.SYS_SETRESUID} {
			if _, _, errno := syscall.RawSyscall(call, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
				result <- errno
				return
			}
		}
		err := unix.PtraceAttach(pid)
		if err == nil {
			_ = unix.PtraceDetach(pid)
		}
		result <- err
	}()
	return <-result
}

// TestUnprivileged wants a server that cannot be looked into to write files, and
// to end as a daemon.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	env, prefix := unprivileged(t)
	dir := strings.TrimPrefix(home(env), "HOME=")
	run := func(args ...string) result {
		cmd := exec.CommandContext(t.Context(), prefix[0], append(append(prefix[1:], binary), args...)...)
		cmd.Env = append(env, "XDG_DATA_HOME="+dir)
		return finish(t, cmd)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	started := run("daemon", "start", "--port", port, "--no-token")
	if started.status != exitOK {
		t.Fatalf("start: %+v", started)
	}
	file := filepath.Join(dir, "written")
	write := run("api", "--endpoint", "http://127.0.0.1:"+port, "processes", "run", "--", "true")
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1:"+port+"/v1/fs/file?path="+file, strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(put); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("write: %v, %v", res, err)
	} else {
		res.Body.Close()
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "text" {
		t.Errorf("%s holds %q, %v", file, text, err)
	}
	if write.status != exitOK {
		t.Errorf("run: %+v", write)
	}
	if stopped := run("daemon", "stop", "--port", port); stopped.status != exitOK || !strings.Contains(stopped.stdout, "has ended") {
		t.Errorf("stop: %+v", stopped)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestDescriptors starts the server with a token file as a file descriptor, and expects
// that its children cannot read it there.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-secret-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(token)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command(binary, "server", "--port", "0", "--token-file", "/dev/fd/3")
	cmd.Env, cmd.ExtraFiles = environ(t), []*os.File{file}
	s := serveCommand(t, cmd)
	s.token = "a-secret-token"
	var run struct{ Stdout string }
	s.ask(t, "/v1/processes/run", `{"command":"sh","args":["-c","ls -l /proc/self/fd; cat <&3"]}`, &run)
	if !strings.Contains(run.Stdout, " 0 -> ") || strings.Contains(run.Stdout, token) || strings.Contains(run.Stdout, s.token) {
		t.Errorf("a child has the server's file:\n%s", run.Stdout)
	}
}
