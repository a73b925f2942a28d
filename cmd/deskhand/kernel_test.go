package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/testx11"
)

// confined is the variable that makes the test binary run its arguments as a
// program for which newer system calls fail with this errno.
const confined = "DESKHAND_TEST_CONFINED"

// newerCalls are system calls that older kernels lack and that older container
// engines refuse. They do not refuse clone3, the first one, since the C library
// needs ENOSYS to start threads without it.
var newerCalls = []uint32{
	unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PIDFD_GETFD,
	unix.SYS_MEMFD_CREATE, unix.SYS_CLOSE_RANGE, unix.SYS_FACCESSAT2, unix.SYS_FCHMODAT2, unix.SYS_COPY_FILE_RANGE,
}

// confine becomes the program in the arguments, below a filter as in seccomp(2).
func confine(errno string) error {
	var number uint32
	if _, err := fmt.Sscan(errno, &number); err != nil {
		return err
	}
	calls := newerCalls
	if syscall.Errno(number) == unix.EPERM {
		calls = calls[1:]
	}
	runtime.LockOSThread()
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // seccomp_data.nr
	for i, call := range calls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(calls) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | number})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return err
	}
	if err := os.Unsetenv(confined); err != nil {
		return err
	}
	return syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
}

// TestOldKernel runs a server for which newer system calls fail: as on an older
// kernel, and as below a seccomp filter of an older container engine.
func TestOldKernel(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{unix.ENOSYS, unix.EPERM} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := serveAs(t, os.Args[0], environ(t, fmt.Sprintf("%s=%d", confined, errno)), binary, "server", "--port", "0", "--no-token")
			s.ask(t, "/v1/desktop/start", `{"width":400,"height":300}`, nil)
			file := filepath.Join(dir, "typed")
			body, err := json.Marshal(map[string]any{"app": "xterm", "args": []string{"-e", "sh", "-c", "head -n 1 >" + file}, "wait": true})
			if err != nil {
				t.Fatal(err)
			}
			s.ask(t, "/v1/desktop/launch", string(body), nil)
			s.ask(t, "/v1/desktop/keyboard/type", `{"text":"old kernel\n"}`, nil)
			poll(t, callLimit, "the text arrives", func() string {
				text, _ := os.ReadFile(file)
				if string(text) != "old kernel\n" {
					return string(text)
				}
				return ""
			})
			if _, picture := s.call(t, "/v1/desktop/screenshot", ""); !strings.HasPrefix(string(picture), "\x89PNG") {
				t.Errorf("screenshot: %.100s", picture)
			}
			var run struct {
				Stdout   string
				ExitCode int
			}
			if s.ask(t, "/v1/processes/run", `{"command":"sh","args":["-c","echo ran; exit 3"]}`, &run); run.Stdout != "ran\n" || run.ExitCode != 3 {
				t.Errorf("run: %+v", run)
			}
			var entries []struct{ Name string }
			if s.ask(t, "/v1/fs/entries?path="+dir, "", &entries); len(entries) != 1 || entries[0].Name != "typed" {
				t.Errorf("entries: %v", entries)
			}
			s.ask(t, "/v1/acp/one?agent=mock", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`, nil)
			s.signal(t, syscall.SIGTERM)
			if code := s.state.ExitCode(); code != 0 {
				t.Errorf("exit status %d", code)
			}
		})
	}
}

// TestBareMachine runs a server and a browser in a network without IPv6, without
// /dev/shm and without writable control groups.
func TestBareMachine(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may make namespaces here")
	}
	testx11.Require(t, "Xvfb", "openbox", "chromium", "unshare", "ip")
	if err := exec.Command("unshare", "-mn", "mount", "-t", "tmpfs", "none", "/dev/shm").Run(); err != nil {
		t.Skipf("no namespaces can be made here: %v", err)
	}
	dir := t.TempDir()
	script := `set -eu
ip link set lo up
ipv6=/proc/sys/net/ipv6/conf/all/disable_ipv6
! [ -e $ipv6 ] || echo 1 >$ipv6
mount -t tmpfs -o ro,size=4k none /dev/shm
for g in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts); do mount -o remount,ro,bind "$g" || umount -l "$g"; done
"$1" server --port 0 --no-token --state-dir "$2/state" >"$2/out" 2>"$2/err" & server=$!
trap 'kill $server; wait $server' EXIT
for i in $(seq 600); do grep -q ready "$2/out" && break; sleep 0.1; done
at=$(sed -n 's|.*ready at \(http://[^/]*\)/.*|\1|p' "$2/out")
deskhand=$1
run() { "$deskhand" api --endpoint "$at" "$@"; }
run desktop start >/dev/null
run desktop launch chromium --args about:blank --wait >/dev/null
run desktop screenshot -o "$2/desk.png"
run desktop windows list
`
	cmd := exec.Command("unshare", "-mn", "--propagation", "private", "sh", "-c", script, "sh", binary, dir)
	cmd.Env = environ(t)
	r := finish(t, cmd)
	log, _ := os.ReadFile(filepath.Join(dir, "err"))
	if r.status != 0 || !strings.Contains(r.stdout, "hromium") {
		t.Fatalf("exit status %d: %s\n%s\n%s", r.status, r.stdout, r.stderr, log)
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "desk.png")); err != nil || !strings.HasPrefix(string(picture), "\x89PNG") {
		t.Errorf("desk.png: %v", err)
	}
}
