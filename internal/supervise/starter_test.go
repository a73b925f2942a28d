package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStarterStopped runs a program that the user of a child tries to freeze.
func TestStarterStopped(t *testing.T) {
	t.Parallel()
	otherUser(t)
	cmd, out := role(t, "leased"), &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
}

// playLeased starts a program of another user, whose file is leased (fcntl(2)), and stops the
// process as soon as the user could: execve waits until the lease is given back. Other starts
// and the garbage collector must not wait.
func playLeased() error {
	u, err := LookupUser("65534")
	if err != nil {
		return err
	}
	program, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "leased")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := os.ReadFile(program)
	leased := filepath.Join(dir, "leased")
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(leased, binary, 0o755), os.Chown(leased, int(u.Credential.Uid), 0)); err != nil { //nolint:gosec // it is a program
		return err
	}
	file, err := os.Open(leased)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	g, err := NewGroup(GroupConfig{})
	if err != nil {
		return err
	}
	defer g.Close()
	started := make(chan error, 1)
	go func() {
		_, err := g.Start(Spec{Path: leased, Dir: "/", Credential: u.Credential})
		started <- err
	}()
	if err := poll(20*time.Second, func() error { return stopChildOf(u) }); err != nil {
		return err
	}
	runtime.GC()
	for _, as := range []*syscall.Credential{nil, u.Credential} {
		c, err := g.Start(Spec{Path: program, Dir: "/", Credential: as})
		if err != nil {
			return err
		}
		<-c.Done()
	}
	select {
	case err := <-started:
		return fmt.Errorf("the start has returned %w, before the other starts", err)
	default:
	}
	if err := <-started; !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("start of the stopped program: %w", err)
	}
	if err := stopChildOf(u); !errors.Is(err, errGone) {
		return fmt.Errorf("the stopped process: %w", err)
	}
	return nil
}

// stopChildOf stops the child of this program that has the ids of a user. It returns errGone if
// there is none.
func stopChildOf(u User) error {
	all, _, err := processes()
	if err != nil {
		return err
	}
	for pid, p := range all {
		if uids := readStatus(pid).words("Uid"); p.parent == os.Getpid() && len(uids) > 0 && uids[0] == fmt.Sprint(u.Credential.Uid) {
			return unix.Kill(pid, unix.SIGSTOP)
		}
	}
	return errGone
}

// keyName is the description of the key in the session keyring of the program "keyring".
const keyName = "deskhand-test-key"

// TestStarterKeyring runs a program that has a session keyring.
func TestStarterKeyring(t *testing.T) {
	t.Parallel()
	otherUser(t)
	runtime.LockOSThread() // the thread has another keyring, so it must end with the test
	if _, _, err := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0); err != 0 {
		t.Skipf("join a session keyring: %v", err)
	}
	key, err := unix.AddKey("user", keyName, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
	if err != nil {
		t.Fatal(err)
	}
	const possessor = 0x3f000000 // the rights that KEY_POS_ALL names
	if err := unix.KeyctlSetperm(key, possessor); err != nil {
		t.Fatal(err)
	}
	if out, err := role(t, "keyring").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// playKeyring checks which children possess the key: a process sees only keys in /proc/keys on
// which it has rights.
func playKeyring() error {
	u, err := LookupUser("65534")
	if err != nil {
		return err
	}
	g, err := NewGroup(GroupConfig{})
	if err != nil {
		return err
	}
	defer g.Close()
	for _, as := range []*syscall.Credential{nil, u.Credential} {
		out := &output{}
		c, err := g.Start(Spec{Path: "cat", Args: []string{"/proc/keys"}, Dir: "/", Credential: as, Output: out})
		if err != nil {
			return err
		}
		<-c.Done()
		if got, want := strings.Contains(out.String(), keyName), as == nil; c.Exit().Code != 0 || got != want {
			return fmt.Errorf("a child with the credentials %v has the key: %t, want %t; %v, %s", as, got, want, c.Exit(), out.String())
		}
	}
	return nil
}

// A child of another user has the ids, the directory, the arguments and the environment that were
// asked for, and no descriptor of the starter.
func TestStartAsUser(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	dir, group := openTempDir(t), newTestGroup(t, GroupConfig{})
	as := &syscall.Credential{Uid: u.Credential.Uid, Gid: 4242, Groups: []uint32{4343, 4444}}
	odd := "ODD=a:b\xff\nc"
	env := []string{"PATH=/usr/bin:/bin", "1:x=y", "GODEBUG=bad", "LD_PRELOAD=/no/such/library", "TWICE=1", odd, "TWICE=2", "EMPTY="}
	out := &output{}
	c := start(t, group, Spec{
		Path: "/bin/cat", Args: []string{"/proc/self/status"}, Env: env[:1], Dir: dir,
		Credential: as, Output: out,
	})
	wait(t, c)
	for _, want := range []string{
		"Uid:\t65534\t65534\t65534\t65534\n", "Gid:\t4242\t4242\t4242\t4242\n", "Groups:\t4343 4444", "PPid:\t" + fmt.Sprint(os.Getpid()) + "\n",
		"Pid:\t" + fmt.Sprint(c.PID()) + "\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	if got := environOf(t, group, as, env); !slices.Equal(got[1:], env) || !strings.HasPrefix(got[0], GroupVariable+"=") {
		t.Errorf("environment %q, want %q", got, env)
	}
	want := dir + "\nname a  b \n"
	if got := shellAs(t, group, as, dir, `pwd; echo "$0" "$@"`, "a  b", ""); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, inherited := range []string{"ls /proc/$$/fd", "grep -E '^Sig(Blk|Ign)' /proc/self/status"} { // the test may have some
		if mine, got := shellAs(t, group, nil, dir, inherited), shellAs(t, group, as, dir, inherited); got != mine || got == "" {
			t.Errorf("%s: %q, want %q", inherited, got, mine)
		}
	}
}

// shellAs returns the output of a script.
func shellAs(t *testing.T, g *Group, as *syscall.Credential, dir, script string, args ...string) string {
	t.Helper()
	out := &output{}
	wait(t, start(t, g, Spec{
		Path: "/bin/sh", Args: append([]string{"-c", script, "name"}, args...), Dir: dir, Credential: as, Output: out, Env: []string{"PATH=/usr/bin:/bin"},
	}))
	return out.String()
}

// environOf returns the environment that a child has. It fails the test if the starter has loaded
// libraries of the child's environment, too.
func environOf(t *testing.T, g *Group, as *syscall.Credential, env []string) []string {
	t.Helper()
	out, errs := &output{}, &output{}
	wait(t, start(t, g, Spec{Path: "/bin/cat", Args: []string{"/proc/self/environ"}, Dir: "/", Env: env, Credential: as, Stdout: out, Stderr: errs}))
	if strings.Count(errs.String(), "/no/such/library") > 1 {
		t.Errorf("the starter has the variables of the child: %s", errs.String())
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\x00"), "\x00")
}

// If execve or chdir fails in the starter, Start returns that error, and no process is left.
func TestStartAsUserFails(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	dir, g := openTempDir(t), newTestGroup(t, GroupConfig{})
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
		return path
	}
	closed := filepath.Join(dir, "closed")
	if err := errors.Join(os.Mkdir(closed, 0o700), os.Mkdir(filepath.Join(dir, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	busy := file("busy", "#!/bin/sh\n")
	writer, err := os.OpenFile(busy, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for _, tt := range []struct {
		spec Spec
		want error
	}{
		{Spec{Path: file("text", "text")}, syscall.ENOEXEC},
		{Spec{Path: file("script", "#!/no/such/interpreter\n")}, syscall.ENOENT},
		{Spec{Path: busy}, syscall.ETXTBSY},
		{Spec{Path: "/bin/true", Args: []string{"a\x00b"}}, syscall.EINVAL},
		{Spec{Path: "/bin/true", Dir: closed}, fs.ErrPermission},
		{Spec{Path: "/bin/true", Args: []string{strings.Repeat("a", 1<<20)}}, syscall.E2BIG},
	} {
		tt.spec.Credential = u.Credential
		if tt.spec.Dir == "" {
			tt.spec.Dir = "/"
		}
		if c, err := g.Start(tt.spec); !errors.Is(err, tt.want) {
			t.Errorf("%s in %s: %v, %v, want %v", tt.spec.Path, tt.spec.Dir, c, err, tt.want)
		}
	}
	if len(g.Children()) > 0 {
		t.Errorf("children: %+v", g.Children())
	}
}

// TestStarterDies: a starter that ends without a word has not executed the program.
func TestStarterDies(t *testing.T) {
	t.Parallel()
	status, theirs, err := Pipe(ReadEnd)
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	defer theirs.Close()
	starter := &exec.Cmd{Path: "/proc/self/exe", Args: []string{starterName, "not JSON", "", "/bin/true", "true"}, ExtraFiles: []*os.File{theirs}}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	if err := awaitStarter(status); err == nil || !strings.Contains(err.Error(), "ended before the program was executed") {
		t.Errorf("awaitStarter: %v", err)
	}
	if err := starter.Wait(); err == nil || starter.ProcessState.ExitCode() != starterExit {
		t.Errorf("the starter: %v", err)
	}
}

// TestStarterOrphaned kills a program whose child has another user. The kernel ends the child.
func TestStarterOrphaned(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	cmd, line := startRole(t, "owner", "SUPERVISE_TEST_USER="+u.Name)
	f := parseFamily(t, line)
	wantAlive(t, f.shell)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := poll(time.Minute, func() error {
		if alive(f.shell) {
			return errors.New("the child lives")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{f.child, f.daemon} { // nothing else ends them
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// BenchmarkRunAsUser starts a child as another user and waits for its end.
func BenchmarkRunAsUser(b *testing.B) {
	u, err := LookupUser("65534")
	if err != nil {
		b.Skip(err)
	}
	g, err := NewGroup(GroupConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	for b.Loop() {
		c, err := g.Start(Spec{Path: "true", Dir: "/", Credential: u.Credential})
		if err != nil {
			b.Fatal(err)
		}
		<-c.Done()
	}
}
