// Package testspace gives tests room of their own on the machine: a disk that is small enough
// to be filled, and a free port.
//
//	func TestDiskFull(t *testing.T) {
//		dir := testspace.Disk(t, "6m")
//		if dir == "" {
//			return // the test has run, in a process that may mount
//		}
//		...
//	}
//
// The test runs a second time in a process with a mount namespace of its own,
// as an unprivileged user where that is allowed. Where it is not, the test is
// skipped.
package testspace

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const variable = "DESKHAND_TEST_NAMESPACE"

// Disk mounts a disk in memory of that size, as tmpfs takes it, until the test
// ends, and returns its folder. In the process where it cannot it returns ""
// when the test has passed in the other one, and fails with it otherwise.
func Disk(t *testing.T, size string) string {
	t.Helper()
	if os.Getenv(variable) != t.Name() {
		again(t)
		return ""
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// again runs the test in a namespace.
func again(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM):
		t.Skipf("no namespaces here: %v", err)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Fatalf("the test did not run:\n%s", out)
	}
}

// Port returns a TCP port of 127.0.0.1 on which no program listens, for a server that a test
// starts as a program of its own. Another program may take it before the server does.
func Port(tb testing.TB) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}
