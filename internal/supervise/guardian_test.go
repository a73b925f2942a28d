package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// playGuarded starts a guardian and a script, in a control group if one is named,
// and waits to be killed.
func playGuarded() error {
	if _, err := StartGuardian(nil); err != nil {
		return err
	}
	g, err := NewGroup(GroupConfig{Dir: os.Getenv("SUPERVISE_TEST_DIR")})
	if err != nil {
		return err
	}
	s := Spec{Path: "bash", Args: []string{"-c", os.Getenv("SUPERVISE_TEST_SCRIPT")}, Stdout: os.Stdout}
	if name := os.Getenv("SUPERVISE_TEST_USER"); name != "" {
		u, err := LookupUser(name)
		if err != nil {
			return err
		}
		s.Dir, s.Credential = "/", u.Credential
	}
	if dir := os.Getenv("SUPERVISE_TEST_CGROUP"); dir != "" {
		GuardCgroup(dir)
		if s.Cgroup, err = os.Open(dir); err != nil {
			return err
		}
	}
	if _, err := g.Start(s); err != nil {
		return err
	}
	select {}
}

// startGuarded runs a guarded program until its script has printed a line.
func startGuarded(t *testing.T, script string, env ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	cmd, _ := startRole(t, "guarded", append(env, "SUPERVISE_TEST_SCRIPT="+script)...)
	return cmd
}

// withMark returns the processes that have a mark.
func withMark(t *testing.T, m mark) []int {
	t.Helper()
	all, _, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for pid, p := range all {
		if !p.gone() && markOf(pid) == m {
			pids = append(pids, pid)
		}
	}
	return pids
}

// The guardian ends a chain of processes that clear their environment. Each of them starts
// the next one in a new session and exits.
func TestGuardianEndsChain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hop")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nsetsid -f env -i PATH=\"$PATH\" \"$0\" </dev/null >/dev/null 2>&1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := startGuarded(t, "for i in 1 2 3; do "+file+"; done; for i in 1 2 3 4 5 6 7 8; do env -i setsid -f sleep 1000; done; echo ready; wait")
	m := markOf(cmd.Process.Pid)
	if n := len(withMark(t, m)); m == 0 || n < 10 {
		t.Errorf("%d processes have the mark %d", n, m)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	begun := time.Now()
	if err := poll(10*time.Second, func() error {
		if left := withMark(t, m); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	t.Logf("no process is left after %v", time.Since(begun))
}

// The guardian ends a process that has removed the mark, because it is in the control group.
func TestGuardianEndsCgroup(t *testing.T) {
	t.Parallel()
	group := cgroupFolder(t)
	dir := t.TempDir()
	cmd := startGuarded(t, "ulimit -x 1000 && env -i setsid -f sleep 1000 && echo ready; wait",
		"SUPERVISE_TEST_CGROUP="+group.Name(), "SUPERVISE_TEST_DIR="+dir)
	if r := recordIn(t, dir); r.Mark == 0 || r.Mark != markOf(cmd.Process.Pid) {
		t.Errorf("the record is %+v, the mark %d", r, markOf(cmd.Process.Pid))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := poll(10*time.Second, func() error {
		b, err := os.ReadFile(filepath.Join(group.Name(), "cgroup.procs"))
		if err == nil && len(b) > 0 {
			err = errors.New("left: " + strings.ReplaceAll(string(b), "\n", " "))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// Children of another user are in a control group. The guardian kills the processes in it,
// also processes without a mark, and removes it.
func TestGuardianEndsUsersCgroup(t *testing.T) {
	t.Parallel()
	cgroupFolder(t) // or skip
	u := otherUser(t)
	cmd := startGuarded(t, "echo ready; sleep 1000", "SUPERVISE_TEST_USER="+u.Name)
	groups, err := filepath.Glob(filepath.Join(OwnCgroup(), fmt.Sprintf("%s%d-*", usersPrefix, cmd.Process.Pid)))
	if err != nil || len(groups) != 1 {
		t.Fatalf("the control groups are %v, %v", groups, err)
	}
	of, err := filepath.Glob(filepath.Join(groups[0], "*", "cgroup.procs"))
	if err != nil || len(of) != 1 {
		t.Fatalf("the control groups below are %v, %v", of, err)
	}
	procs := of[0]
	if b, err := os.ReadFile(procs); err != nil || len(b) == 0 {
		t.Errorf("the child is not in the group: %q, %v", b, err)
	}
	escaped := exec.Command("sleep", "1000")
	if err := escaped.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = escaped.Process.Kill() }()
	if err := os.WriteFile(procs, []byte(fmt.Sprint(escaped.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := escaped.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process without a mark: %v", err)
	}
	if err := poll(10*time.Second, func() error {
		_, err := os.Stat(groups[0])
		if err == nil {
			return errors.New("the control group is left")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A process of another user that has lowered its limit and cleared its environment cannot
// leave the supplementary group of the mark.
func TestGuardianEndsOtherUsers(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	cmd := startGuarded(t, "ulimit -x 1000 && env -i setsid -f sleep 1000 && echo ready; wait", "SUPERVISE_TEST_USER="+u.Name)
	m := markOf(cmd.Process.Pid)
	hidden := func() []int {
		all, _, err := processes()
		if err != nil {
			t.Fatal(err)
		}
		var pids []int
		for pid, p := range all {
			if !p.gone() && markOf(pid) == 0 && m.matches(0, readStatus(pid).words("Groups")) {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	if len(hidden()) == 0 {
		t.Fatal("no process has the group of the mark without the limit")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := poll(10*time.Second, func() error {
		if left := hidden(); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestMappedGroups(t *testing.T) {
	t.Parallel()
	const all, part = "         0          0 4294967295\n", "0 100000 65536\n1073741824 165536 10\n"
	for _, c := range []struct {
		text  string
		group uint32
		want  bool
	}{{all, 1 << 30, true}, {part, 65535, true}, {part, 65536, false}, {part, 1<<30 + 9, true}, {part, 1<<30 + 10, false}, {"", 0, false}} {
		if got := mapped(c.text, c.group); got != c.want {
			t.Errorf("mapped(%q, %d) = %v", c.text, c.group, got)
		}
	}
}

// Sweep ends the processes that have the mark of a record.
func TestSweepByMark(t *testing.T) {
	t.Parallel()
	since, err := ticks()
	if err != nil {
		t.Fatal(err)
	}
	const dead mark = 1<<50 + 12345
	pid := foreign(t)
	if err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: uint64(dead), Max: uint64(dead)}, nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	leave(t, dir, record{Token: newToken(), Boot: bootID(), Since: since, Mark: dead + 1})
	if n, err := Sweep(dir, nil); n != 0 || err != nil {
		t.Errorf("Sweep with another mark: %d, %v", n, err)
	}
	wantAlive(t, pid)
	leave(t, dir, record{Token: newToken(), Boot: bootID(), Since: since, Mark: dead})
	if n, err := Sweep(dir, nil); n != 1 || err != nil {
		t.Errorf("Sweep: %d, %v, want 1", n, err)
	}
	wantGone(t, pid)
}
