package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/testlog"
)

// roleVariable makes the test binary run as the program that it names.
const roleVariable = "SUPERVISE_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Args[0] == GuardianName {
		exitWith(RunGuardian(os.Args))
	}
	switch os.Getenv(roleVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "owner":
		exitWith(playOwner())
	case "guarded":
		exitWith(playGuarded())
	case "closer":
		exitWith(playCloser())
	case "reaper":
		exitWith(playReaper())
	case "ignorer":
		exitWith(playIgnorer())
	case "readline":
		exitWith(playReadline())
	case "veil":
		exitWith(playVeil())
	case "headless":
		exitWith(playHeadless())
	case "collector":
		exitWith(playCollector())
	case "leased":
		exitWith(playLeased())
	case "keyring":
		exitWith(playKeyring())
	}
}

func exitWith(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playOwner starts a family of processes, as a server would, and waits to be killed.
func playOwner() error {
	g, err := NewGroup(GroupConfig{Dir: os.Getenv("SUPERVISE_TEST_DIR"), Owner: "desktop"})
	if err != nil {
		return err
	}
	u, err := LookupUser(os.Getenv("SUPERVISE_TEST_USER"))
	if err != nil {
		return err
	}
	_, err = g.Start(Spec{Path: "sh", Args: []string{"-c", familyScript}, Stdout: os.Stdout, Credential: u.Credential})
	if err != nil {
		return err
	}
	select {}
}

// playCollector opens the standard output of the processes that it is told, and keeps it.
func playCollector() error {
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if _, err := unix.Open("/proc/"+in.Text()+"/fd/1", unix.O_WRONLY, 0); err != nil {
			return err
		}
		fmt.Println("kept")
	}
	return nil
}

// playIgnorer was started with SIGHUP and SIGINT ignored. Its children must not ignore them.
func playIgnorer() error {
	if !signal.Ignored(syscall.SIGHUP) || !signal.Ignored(syscall.SIGINT) {
		return errors.New("SIGHUP or SIGINT is not ignored at the start")
	}
	g, err := NewGroup(GroupConfig{})
	if err != nil {
		return err
	}
	defer g.Close()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		c, err := g.Start(Spec{Path: "sh", Args: []string{"-c", fmt.Sprintf("kill -%d $$; exit 3", sig)}})
		if err != nil {
			return err
		}
		<-c.Done()
		if c.Exit().Signal != sig {
			return fmt.Errorf("a child ended with %v, want %v", c.Exit(), sig)
		}
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			return err
		}
		<-discardedSignals // the signal has arrived and has not ended this program
	}
	return nil
}

// playReaper makes orphans, which Reap must wait for, and children whose exit status it reads.
func playReaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	g, err := NewGroup(GroupConfig{})
	if err != nil {
		return err
	}
	defer g.Close()
	if err := reapAtSecondSearch(g); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reaped := make(chan error, 1)
	go func() { reaped <- Reap(ctx) }()
	if err := reapConcurrently(g); err != nil {
		return err
	}
	cancel()
	return <-reaped
}

// reapAtSecondSearch tests that the reaper waits for an orphan that it has seen twice, and not
// for a child of a group.
func reapAtSecondSearch(g *Group) error {
	held, err := g.Start(Spec{Path: "sleep", Args: []string{"1000"}})
	if err != nil {
		return err
	}
	if !held.hold() {
		return errors.New("the child was waited for")
	}
	if err := held.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	foreign := exec.Command("true")
	if err := foreign.Start(); err != nil {
		return err
	}
	zombie := func(pid int) bool {
		p, err := readProcess(pid)
		return err == nil && p.gone()
	}
	<-held.Done()
	if err := poll(time.Minute, func() error {
		if !zombie(foreign.Process.Pid) {
			return errors.New("it does not end")
		}
		return nil
	}); err != nil {
		return err
	}
	var r reaper
	if more, err := r.search(); err != nil || !more || !zombie(foreign.Process.Pid) || !zombie(held.PID()) {
		return fmt.Errorf("first search: %v, %w; both must be left", more, err)
	}
	if more, err := r.search(); err != nil || more || zombie(foreign.Process.Pid) || !zombie(held.PID()) {
		return fmt.Errorf("second search: %v, %w; only the child of the group must be left", more, err)
	}
	_ = foreign.Wait() // fails: the reaper has waited for it
	held.release()
	if zombie(held.PID()) {
		return errors.New("the child of the group was not waited for")
	}
	return nil
}

// reapConcurrently makes many orphans while Reap runs.
func reapConcurrently(g *Group) error {
	var kids []*Child
	for range 20 {
		// Each child leaves an orphan that ends immediately, then exits with 7.
		c, err := g.Start(Spec{Path: "sh", Args: []string{"-c", "setsid true & exit 7"}})
		if err != nil {
			return err
		}
		kids = append(kids, c)
	}
	foreign := exec.Command("sh", "-c", "exit 8")
	if err := foreign.Run(); foreign.ProcessState == nil || foreign.ProcessState.ExitCode() != 8 {
		return fmt.Errorf("exit status of a child of os/exec: %w", err)
	}
	for _, c := range kids {
		<-c.Done()
		if c.Exit().Code != 7 {
			return fmt.Errorf("exit of a child: %v, want 7", c.Exit())
		}
	}
	return poll(time.Minute, func() error {
		left, err := orphans()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d orphans were not waited for", len(left))
		}
		return err
	})
}

// familyScript prints the process ids of a shell, of its child, and of a daemon that has
// left the process group, the session and the tree. All three then wait.
const familyScript = `
sleep 1000 &
child=$!
daemon=$(setsid sh -c 'sleep 1000 >/dev/null 2>&1 </dev/null & echo $!')
echo family $$ $child $daemon
wait`

type family struct{ shell, child, daemon int }

func (f family) all() []int { return []int{f.shell, f.child, f.daemon} }

func parseFamily(t *testing.T, text string) family {
	t.Helper()
	var f family
	if _, err := fmt.Sscanf(text, "family %d %d %d", &f.shell, &f.child, &f.daemon); err != nil {
		t.Fatalf("family in %q: %v", text, err)
	}
	return f
}

// poll calls f until it returns nil. After limit it returns the last error.
func poll(limit time.Duration, f func() error) error {
	deadline := time.After(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-deadline:
			return err
		case <-tick.C:
		}
	}
}

func alive(pid int) bool {
	p, err := readProcess(pid)
	return err == nil && !p.gone()
}

func wantGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}

func wantAlive(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("process %d is not alive", pid)
		}
	}
}

// output is a writer that can be waited on.
type output struct{ testlog.Buffer }

// await waits for a line that begins with prefix and returns it.
func (o *output) await(t *testing.T, prefix string) string {
	t.Helper()
	var found string
	err := poll(time.Minute, func() error {
		text := o.String()
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, prefix) && strings.HasSuffix(line, "\n") {
				found = strings.TrimSpace(line)
				return nil
			}
		}
		return fmt.Errorf("no line %q in %q", prefix, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func newTestGroup(t *testing.T, cfg GroupConfig) *Group {
	t.Helper()
	g, err := NewGroup(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func start(t *testing.T, g *Group, s Spec) *Child {
	t.Helper()
	c, err := g.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shell starts a script whose output can be waited on.
func shell(t *testing.T, g *Group, script string) (*Child, *output) {
	t.Helper()
	out := &output{}
	return start(t, g, Spec{Path: "sh", Args: []string{"-c", script}, Output: out}), out
}

func wait(t *testing.T, c *Child) Exit {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(time.Minute):
		t.Fatalf("%s did not end; it wrote %q", c.Name(), c.Tail())
	}
	return c.Exit()
}

// number returns the number after the first word of a line.
func number(t *testing.T, line string) int {
	t.Helper()
	f := strings.Fields(line)
	n, err := strconv.Atoi(f[len(f)-1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// foreign starts a process that does not descend from this one and runs until the test ends.
func foreign(t *testing.T, env ...string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid := number(t, string(out))
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		_ = unix.Close(fd)
	})
	if p, err := readProcess(pid); err != nil || p.parent == os.Getpid() {
		t.Fatalf("process %d: %+v, %v, want one that is not our child", pid, p, err)
	}
	return pid
}

// role returns a command that runs the test binary as the named program.
func role(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+name), env...)
	return cmd
}

// startRole starts the test binary as the named program and returns the first line that
// the program prints.
func startRole(t *testing.T, name string, env ...string) (cmd *exec.Cmd, line string) {
	t.Helper()
	cmd = role(t, name, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	slow := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer slow.Stop()
	if line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the %s printed %q: %v", name, line, err)
	}
	return cmd, line
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

var errFull = errors.New("full")

// lineageOf waits until a process is not executing another program, and returns its lineage.
func lineageOf(pid int) string {
	for {
		if v, _, certain := lineage(pid); certain {
			return v
		}
	}
}
