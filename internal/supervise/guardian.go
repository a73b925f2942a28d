package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// GuardianName is argument 0 of the guardian: see [StartGuardian].
const GuardianName = "deskhand-guardian"

const (
	guardianRestart = time.Second     // between the end of a guardian and the start of the next
	guardianEnd     = 5 * time.Second // the longest wait of Close
	freezeTries     = 1000            // searches for processes that are not stopped yet
)

// Guardian is a process that ends the children of this program if the program itself
// cannot, for example after SIGKILL. Make one with [StartGuardian].
type Guardian struct {
	logger *slog.Logger
	args   []string
	stop   chan struct{}
	done   chan struct{}

	mu     sync.Mutex
	pipe   *os.File // the guardian reads it; its end means the end of this program
	groups []string
}

// guardianArgs holds the arguments of a guardian.
type guardianArgs struct {
	token string
	mark  mark
	since uint64
}

func (o guardianArgs) args() []string {
	return []string{GuardianName, o.token, fmt.Sprint(uint64(o.mark)), fmt.Sprint(o.since)}
}

func parseGuardianArgs(args []string) (o guardianArgs, err error) {
	_, err = fmt.Sscan(strings.Join(args[1:], " "), &o.token, (*uint64)(&o.mark), &o.since)
	return o, err
}

// StartGuardian starts the guardian: this program's own executable, with [GuardianName]
// as argument 0 and without this program's environment. A program that finds this name in
// its arguments must call [RunGuardian] and exit.
//
// StartGuardian marks this program with a limit (RLIMIT_LOCKS) that children inherit. The
// guardian finds them by the mark, even if they change their environment or leave the
// process tree. A guardian that ends is replaced.
//
// It may be called once in a program, before the first [NewGroup]. logger may be nil.
func StartGuardian(logger *slog.Logger) (*Guardian, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	since, err := ticks()
	if err != nil {
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	o := guardianArgs{token: newToken(), since: since}
	if o.mark, err = setMark(); err != nil {
		logger.Warn("processes that clear their environment cannot be found", "error", err)
	}
	g := &Guardian{logger: logger, args: o.args(), stop: make(chan struct{}), done: make(chan struct{})}
	cmd, err := g.start()
	if err != nil {
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	program.guard.Store(&guard{token: o.token, mark: o.mark, guardian: g})
	go g.watch(cmd)
	return g, nil
}

// start starts the process.
func (g *Guardian) start() (*exec.Cmd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// The link leads to this program even if its file was replaced.
	cmd := exec.Command("/proc/self/exe") //nolint:noctx // it ends with the pipe
	cmd.Args, cmd.Env, cmd.Dir = g.args, []string{"GOMAXPROCS=1"}, "/"
	cmd.ExtraFiles = []*os.File{r}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe = w
	for _, dir := range g.groups {
		_, _ = io.WriteString(w, dir+"\n") // after an error, watch starts another guardian with the same groups
	}
	return cmd, nil
}

// watch replaces the process when it ends, until Close.
func (g *Guardian) watch(cmd *exec.Cmd) {
	defer close(g.done)
	for {
		if cmd != nil {
			_ = cmd.Wait()
		}
		select {
		case <-g.stop:
			return
		default:
		}
		g.closePipe()
		g.logger.Warn("the guardian of child processes has ended; another is started")
		select {
		case <-g.stop:
			return
		case <-time.After(guardianRestart):
		}
		var err error
		if cmd, err = g.start(); err != nil {
			g.logger.Error("start the guardian", "error", err)
		}
	}
}

func (g *Guardian) closePipe() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe != nil {
		_ = g.pipe.Close()
		g.pipe = nil
	}
}

// Close waits until the guardian has ended the remaining children of this program and has
// exited. It returns an error after five seconds. It must be called once, after all
// groups were closed.
func (g *Guardian) Close() error {
	close(g.stop)
	g.closePipe()
	select {
	case <-g.done:
		return nil
	case <-time.After(guardianEnd):
		return errors.New("the guardian of child processes did not end")
	}
}

// GuardCgroup makes the guardian, if there is one, kill a control group of version 2 and
// all groups below it when this program ends.
func GuardCgroup(dir string) {
	p := program.guard.Load()
	if p == nil {
		return
	}
	g := p.guardian
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups = append(g.groups, dir)
	if g.pipe != nil {
		_, _ = io.WriteString(g.pipe, dir+"\n")
	}
}

// RunGuardian is the main function of a guardian. args are its arguments, with
// [GuardianName] as the first. RunGuardian waits for the end of the process that called
// [StartGuardian], or for Guardian.Close, kills the remaining children, and returns when
// they have ended.
func RunGuardian(args []string) error {
	o, err := parseGuardianArgs(args)
	if err != nil {
		return fmt.Errorf("guardian: %w", err)
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -5) // against fork bombs; most users may not
	parent, err := readProcess(os.Getppid())
	if err != nil && !errors.Is(err, errGone) {
		return fmt.Errorf("guardian: %w", err)
	}
	groups, err := io.ReadAll(os.NewFile(3, "pipe"))
	if err != nil {
		return fmt.Errorf("guardian: %w", err)
	}
	for dir := range strings.FieldsFuncSeq(string(groups), func(r rune) bool { return r == '\n' }) {
		_ = killCgroup(dir)
		if strings.HasPrefix(filepath.Base(dir), usersPrefix) { // the next host removes the others
			defer func() { _ = endCgroup(dir) }()
		}
	}
	r := &roundup{
		tags:  []tag{{text: o.token, mark: o.mark, since: o.since}},
		spare: func(p process, _ map[int]process) bool { return p.same(parent) }, // it may still be closing its files
	}
	return r.killAll()
}

// killAll ends processes without SIGTERM. It stops all processes before it kills them: processes
// that fork faster than they are found exhaust the limit of processes until the last
// one is stopped.
func (r *roundup) killAll() error {
	r.found = make(map[int]*target)
	for range freezeTries {
		before := len(r.found)
		if _, err := r.search(); err != nil {
			break // end returns the error
		}
		r.signal(unix.SIGSTOP)
		if len(r.found) <= before {
			break
		}
	}
	r.close()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return r.end(now, 0)
}
