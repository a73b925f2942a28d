package supervise

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// cgroupFolder is an empty control group, which is removed when the test ends.
func cgroupFolder(t *testing.T) *os.File {
	t.Helper()
	mounts, err := Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if m.Type != "cgroup2" {
			continue
		}
		dir := filepath.Join(m.Point, "test-"+strings.ToLower(rand.Text()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	t.Skip("no control groups of version 2 can be made here")
	return nil
}

// inGroup fails unless a process is in a group.
func inGroup(t *testing.T, group *os.File, text string) {
	t.Helper()
	if !strings.Contains(text, "/"+filepath.Base(group.Name())+"\n") {
		t.Errorf("it is not in %s:\n%s", group.Name(), text)
	}
}

// A child is in its control group from the first instruction.
func TestCgroup(t *testing.T) {
	t.Parallel()
	group := cgroupFolder(t)
	g, err := NewGroup(GroupConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c, err := g.Start(Spec{Path: "cat", Args: []string{"/proc/self/cgroup"}, Cgroup: group})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	inGroup(t, group, c.Tail())
	if _, err := g.Start(Spec{Path: group.Name(), Cgroup: group}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("starting a folder = %v", err)
	}
}

// If the kernel cannot start a process in a group, it is moved there.
func TestCgroupMove(t *testing.T) {
	t.Parallel()
	group := cgroupFolder(t)
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}}
	pid, err := forkAndMove(command{path: "/bin/sleep", argv: []string{"sleep", "1000"}}, attr)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Error(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
	inGroup(t, group, string(b))
}

// A child runs even if its Cgroup is not a control group.
func TestCgroupRefused(t *testing.T) {
	t.Parallel()
	none, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	g, err := NewGroup(GroupConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c, err := g.Start(Spec{Path: "true", Cgroup: none})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if e := c.Exit(); e.Code != 0 {
		t.Error(e)
	}
}

// hiding starts a process that leaves its tree and its session and clears its environment, and
// prints its number. It ends when the process has done so.
const hiding = `echo $(setsid -f env -i sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1')`

// playCloser runs groups whose children of another user hide, closes one, and prints "ended" if
// that has ended its processes alone.
func playCloser() error {
	guardian, err := StartGuardian(nil)
	if err != nil {
		return err
	}
	u, err := LookupUser(os.Getenv("SUPERVISE_TEST_USER"))
	if err != nil {
		return err
	}
	var groups [2]*Group
	var hidden [2]int
	for i := range groups {
		if groups[i], err = NewGroup(GroupConfig{}); err != nil {
			return err
		}
		c, err := groups[i].Start(Spec{Path: "sh", Args: []string{"-c", hiding}, Dir: "/", Credential: u.Credential})
		if err != nil {
			return err
		}
		<-c.Done()
		if hidden[i], err = strconv.Atoi(strings.TrimSpace(c.Tail())); err != nil || !alive(hidden[i]) {
			return fmt.Errorf("no process hides: %q", c.Tail())
		}
	}
	err = groups[0].Close()
	if err != nil || alive(hidden[0]) || !alive(hidden[1]) {
		return fmt.Errorf("close: %v; the process is alive: %v, that of another group: %v", err, alive(hidden[0]), alive(hidden[1]))
	}
	if err := groups[1].Close(); err != nil || alive(hidden[1]) {
		return fmt.Errorf("close: %v; the process is alive: %v", err, alive(hidden[1]))
	}
	if all := allUsersCgroup(); all != nil {
		if left, err := filepath.Glob(filepath.Join(all.Name(), "*", "cgroup.procs")); err != nil || len(left) > 0 {
			return fmt.Errorf("control groups are left: %v, %w", left, err)
		}
	}
	fmt.Println("ended")
	return guardian.Close()
}

// The end of a group ends other users' processes that hide, before the program ends.
func TestCloseEndsUsersCgroup(t *testing.T) {
	t.Parallel()
	cgroupFolder(t) // or skip
	u := otherUser(t)
	if _, line := startRole(t, "closer", "SUPERVISE_TEST_USER="+u.Name); line != "ended\n" {
		t.Error(line)
	}
}
