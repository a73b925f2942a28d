package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExit(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{Owner: "user"})
	for _, tt := range []struct {
		script string
		want   Exit
		text   string
	}{
		{"exit 0", Exit{Code: 0}, "exit status 0"},
		{"exit 3", Exit{Code: 3}, "exit status 3"},
		{"kill -9 $$", Exit{Code: -1, Signal: syscall.SIGKILL}, "killed by SIGKILL"},
		{"kill -TERM $$", Exit{Code: -1, Signal: syscall.SIGTERM}, "killed by SIGTERM"},
	} {
		before := time.Now()
		c, _ := shell(t, g, tt.script)
		got := wait(t, c)
		if got.At.Before(before) || got.At.After(time.Now()) {
			t.Errorf("%q ended at %v, want between %v and now", tt.script, got.At, before)
		}
		if got.Code != tt.want.Code || got.Signal != tt.want.Signal || got.String() != tt.text {
			t.Errorf("%q: Exit() = %v, want %v", tt.script, got, tt.text)
		}
		if _, err := readProcess(c.PID()); !errors.Is(err, errGone) {
			t.Errorf("%q was not waited for: %v", tt.script, err)
		}
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{Owner: "user"})
	log := filepath.Join(t.TempDir(), "log")
	a := start(t, g, Spec{Name: "first", Path: "sleep", Args: []string{"1000"}, LogPath: log})
	b := start(t, g, Spec{Path: "/bin/sh", Args: []string{"-c", "exit 4"}})
	wait(t, b)
	if a.Exit() != (Exit{}) {
		t.Errorf("Exit() of a running child = %v", a.Exit())
	}
	got := g.Children()
	if len(got) != 2 {
		t.Fatalf("Children() = %v, want two", got)
	}
	if f := got[0]; f.ID != a.ID() || f.Name != "first" || f.Owner != "user" || f.PID != a.PID() || !f.Running ||
		!strings.HasSuffix(f.Path, "/sleep") || !cmp.Equal(f.Args, []string{"1000"}) || f.LogPath != log || !f.Ended.IsZero() {
		t.Errorf("running: %+v", f)
	}
	if s := got[1]; s.Running || s.Exit.Code != 4 || s.Name != "sh" || !s.Ended.Equal(s.Exit.At) || s.Ended.Before(s.Started) {
		t.Errorf("ended: %+v", s)
	}
	if got[0].Number >= got[1].Number {
		t.Errorf("ids %s and %s do not increase", got[0].ID, got[1].ID)
	}
	listed := func(id string) bool {
		return slices.ContainsFunc(Others(nil), func(c *Child) bool { return c.ID() == id })
	}
	for _, i := range got {
		if !listed(i.ID) {
			t.Errorf("Others(nil) has no %s", i.ID)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if listed(a.ID()) {
		t.Error("the list of the program has a child of a closed group")
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c, out := shell(t, g, "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
	out.await(t, "ready")
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := c.Exit(); e.Code != 5 {
		t.Errorf("Exit() = %v, want 5, from its own handler", e)
	}
	if !strings.Contains(out.String(), "bye") {
		t.Errorf("output %q lacks what the handler wrote", out)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Error("second Stop:", err)
	}
	if err := c.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal after the end: %v, want os.ErrProcessDone", err)
	}
}

// Children receive SIGHUP and SIGINT even if this program was started with these signals
// ignored, as by nohup or by a script in the background.
func TestChildrenReceiveSignals(t *testing.T) {
	t.Parallel()
	cmd := role(t, "ignorer")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap '' HUP INT; exec "$0"`, cmd.Path}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestStopTermIgnored(t *testing.T) {
	t.Parallel()
	const grace = 150 * time.Millisecond
	g := newTestGroup(t, GroupConfig{})
	for _, tt := range []struct {
		name     string
		grace    time.Duration
		ctx      func() context.Context
		min, max time.Duration
	}{
		{"grace", grace, context.Background, grace, 5 * time.Second},
		{"none", -1, context.Background, 0, 5 * time.Second},
		{"ctx", time.Hour, func() context.Context {
			ctx, cancel := context.WithTimeout(context.Background(), grace)
			t.Cleanup(cancel)
			return ctx
		}, grace, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out := &output{}
			c := start(t, g, Spec{Path: "sh", Args: []string{"-c", "trap '' TERM; echo ready; while :; do sleep 1; done"}, Grace: tt.grace, Output: out})
			out.await(t, "ready")
			begin := time.Now()
			if err := c.Stop(tt.ctx()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < tt.min || took > tt.max {
				t.Errorf("Stop took %v, want %v to %v", took, tt.min, tt.max)
			}
			if e := c.Exit(); e.Signal != syscall.SIGKILL {
				t.Errorf("Exit() = %v, want SIGKILL", e)
			}
		})
	}
}

func TestStopOfAStoppedChild(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{Grace: 10 * time.Second})
	c, out := shell(t, g, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")
	out.await(t, "ready")
	if err := c.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := c.Exit(); e.Code != 5 {
		t.Errorf("Exit() = %v, want 5: SIGCONT lets it handle SIGTERM", e)
	}
}

func TestStopEndsTheFamily(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c, out := shell(t, g, familyScript)
	other, otherOut := shell(t, g, familyScript)
	f, kept := parseFamily(t, out.await(t, "family")), parseFamily(t, otherOut.await(t, "family"))
	wantAlive(t, f.all()...)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, f.all()...)
	wantAlive(t, kept.all()...)
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, kept.all()...)
}

// Stop finds processes without a token by their process group or their parents.
func TestStopEndsProcessesWithoutToken(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c, out := shell(t, g, "env -i sleep 1000 & echo group $!; env -i setsid sleep 1000 & echo tree $!; wait")
	group, tree := number(t, out.await(t, "group")), number(t, out.await(t, "tree"))
	if err := poll(time.Minute, func() error {
		p, err := readProcess(tree)
		if err == nil && (p.session != tree || lineageOf(tree) != "" || lineageOf(group) != "") {
			err = fmt.Errorf("%+v still has a token or its session", p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, group, tree)
}

// Stop ends a process that is in the process group of the child but not in its tree, has no
// token and ignores SIGTERM.
func TestStopEndsProcessGroup(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{Grace: 50 * time.Millisecond})
	c, out := shell(t, g, `(env -i sh -c "trap '' TERM; echo orphan \$\$; while :; do sleep 1; done" &); sleep 1000`)
	orphan := number(t, out.await(t, "orphan"))
	if p, err := readProcess(orphan); err != nil || p.parent == c.PID() || p.group != c.PID() || lineageOf(orphan) != "" {
		t.Fatalf("%+v, %v: want an unmarked orphan in group %d", p, err, c.PID())
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, orphan)
}

// The process id of a child that is being stopped is not reused. Otherwise signals to the
// process group would reach another process.
func TestHoldKeepsPID(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c := start(t, g, Spec{Path: "sleep", Args: []string{"1000"}})
	if !c.hold() {
		t.Fatal("hold failed")
	}
	if err := c.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, c)
	if p, err := readProcess(c.PID()); err != nil || p.state != 'Z' {
		t.Errorf("while held: %+v, %v", p, err)
	}
	c.release()
	if p, err := readProcess(c.PID()); !errors.Is(err, errGone) {
		t.Errorf("after release: %+v, %v", p, err)
	}
	if c.hold() {
		t.Error("hold of a child that was waited for")
	}
}

// Stop leaves no process, even if the child exits during Stop and leaves one.
func TestStopDuringExit(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	for i := range 400 {
		// Each child runs a little longer than the previous one.
		c := start(t, g, Spec{Path: "sh", Args: []string{"-c", fmt.Sprintf("i=%d; while [ $i -gt 0 ]; do i=$((i-1)); done; sleep 1000 & exit 0", 5*i)}})
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := c.Family(); len(left) > 0 {
			t.Fatalf("Stop left %v in run %d", left, i)
		}
	}
}

func TestFamilyOutlivesItsFirst(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// The processes that it leaves hold its pipe. SIGPIPE would end them if the pipe were closed.
	c, out := shell(t, g, "(echo left $(sh -c 'echo $PPID'); read x <"+fifo+"; echo later; sleep 1000) & echo leader; exit 0")
	if e := wait(t, c); e.Code != 0 {
		t.Fatalf("Exit() = %v", e)
	}
	pid := number(t, out.await(t, "left"))
	wantAlive(t, pid)
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	out.await(t, "later")
	wantAlive(t, pid)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, pid)
}

func TestClose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := newTestGroup(t, GroupConfig{Dir: dir})
	_, out := shell(t, g, familyScript)
	// A child that exited and left a daemon, which Children does not list.
	_, outOld := shell(t, g, familyScript[:strings.LastIndex(familyScript, "wait")])
	f, old := parseFamily(t, out.await(t, "family")), parseFamily(t, outOld.await(t, "family"))
	wantAlive(t, f.shell, f.child, f.daemon, old.child, old.daemon)
	if n := countRecords(t, dir); n != 1 {
		t.Errorf("%d records while open, want 1", n)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			wantGone(t, f.all()...)
			wantGone(t, old.all()...)
		})
	}
	wg.Wait()
	if _, err := g.Start(Spec{Path: "true"}); !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v, want ErrClosed", err)
	}
	if n := countRecords(t, dir); n != 0 {
		t.Errorf("%d records after Close, want none", n)
	}
}

func countRecords(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Not parallel: it counts the program's descriptors.
func TestManyStartsLeakNothing(t *testing.T) {
	if _, err := program.null(); err != nil { // it stays open
		t.Fatal(err)
	}
	before := openFiles(t)
	g := newTestGroup(t, GroupConfig{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := make(map[string]bool)
	for i := range 100 {
		wg.Go(func() {
			c, err := g.Start(Spec{Path: "sh", Args: []string{"-c", fmt.Sprintf("echo out; echo err >&2; exit %d", i)}, Stderr: &output{}})
			if err != nil {
				t.Error(err)
				return
			}
			<-c.Done()
			if c.Exit().Code != i {
				t.Errorf("child %d: %v", i, c.Exit())
			}
			mu.Lock()
			defer mu.Unlock()
			ids[c.ID()] = true
		})
	}
	wg.Wait()
	if len(ids) != 100 {
		t.Errorf("%d different ids of 100 children", len(ids))
	}
	for range 50 {
		if _, err := g.Start(Spec{Path: "no-such-program-anywhere"}); !errors.Is(err, ErrNotFound) {
			t.Fatalf("Start: %v, want ErrNotFound", err)
		}
	}
	if err := poll(time.Minute, func() error {
		if n := len(g.Children()); n != keepExited {
			return fmt.Errorf("%d records of ended children, want %d", n, keepExited)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d open files, %d before", after, before)
	}
	program.mu.Lock()
	defer program.mu.Unlock()
	if len(program.unreaped) != 0 || len(program.logs) != 0 || program.forker.refs != 0 {
		t.Errorf("left in the registry: %d children, %d logs, %d references to the thread",
			len(program.unreaped), len(program.logs), program.forker.refs)
	}
}

// Close waits for a Start that has begun, and ends what it started.
func TestCloseWaitsForStart(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	program.spawn.Lock() // forks wait, as they do while an orphan is waited for
	begun, started, closed := make(chan struct{}), make(chan *Child, 1), make(chan error, 1)
	go func() {
		close(begun)
		c, err := g.Start(Spec{Path: "sleep", Args: []string{"1000"}})
		if err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		started <- c
	}()
	<-begun
	go func() { closed <- g.Close() }()
	var err error
	select {
	case err = <-closed: // it was faster than Start
		closed <- err
	case <-time.After(200 * time.Millisecond):
	}
	program.spawn.Unlock()
	c := <-started
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if c != nil {
		wantGone(t, c.PID())
	}
}

func TestStartWhileClosing(t *testing.T) {
	t.Parallel()
	for range 10 {
		g := newTestGroup(t, GroupConfig{})
		pids := make(chan int, 1000)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					c, err := g.Start(Spec{Path: "sleep", Args: []string{"1000"}})
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					pids <- c.PID()
				}
			})
		}
		first := <-pids
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		close(pids)
		wantGone(t, first)
		for pid := range pids {
			wantGone(t, pid)
		}
	}
}

// A child continues when the thread that called Start ends: the parent-death signal does not
// depend on that thread.
func TestChildOutlivesThreads(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	for range 20 {
		got := make(chan *Child)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			c, err := g.Start(Spec{Path: "sleep", Args: []string{"1000"}})
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
		<-got
	}
	running := func() (n int) {
		for _, i := range g.Children() {
			if i.Running {
				n++
			}
		}
		return n
	}
	if n := running(); n != 20 {
		t.Errorf("%d of 20 children run", n)
	}
	// The test cannot wait for signals that are not sent. Another child takes longer than
	// they would.
	wait(t, start(t, g, Spec{Path: "sleep", Args: []string{"0.1"}}))
	if n := running(); n != 20 {
		t.Errorf("%d of 20 children run after their threads have ended", n)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("not a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		spec Spec
		want error
		text string
	}{
		{Spec{Path: "no-such-program"}, ErrNotFound, "no-such-program"},
		{Spec{Path: "/no/such/program", Name: "nice"}, ErrNotFound, "start nice"},
		{Spec{Path: plain}, os.ErrPermission, "plain"},
		{Spec{Path: dir}, os.ErrPermission, dir},
		{Spec{Path: text}, syscall.ENOEXEC, "text"},
		{Spec{Path: "true", Dir: "/no/such/dir"}, os.ErrNotExist, "/no/such/dir"},
		{Spec{Path: "true", Dir: plain}, syscall.ENOTDIR, "plain"},
		{Spec{Path: "true", Args: []string{"a\x00b"}}, syscall.EINVAL, "true"},
		{Spec{}, nil, "no program"},
	} {
		_, err := g.Start(tt.spec)
		if err == nil || !strings.Contains(err.Error(), tt.text) || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("Start(%+v): %v, want %v with %q", tt.spec, err, tt.want, tt.text)
		}
	}
	if n := len(g.Children()); n != 0 {
		t.Errorf("%d children of failed starts", n)
	}
}

func TestWorkingDirectory(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "here")
	if err := os.WriteFile(script, []byte("#!/bin/sh\npwd; echo $PWD $0 $1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	out := &output{}
	wait(t, start(t, g, Spec{Path: "./here", Args: []string{"x y"}, Dir: dir, Output: out}))
	if want := fmt.Sprintf("%s\n%s %s x y\n", dir, dir, script); out.String() != want {
		t.Errorf("wrote %q, want %q", out, want)
	}
}
