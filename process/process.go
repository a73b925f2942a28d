package process

import (
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// Owner says which part of the program started a process.
type Owner string

// The owners. Desktops start their own; Spec may name the other two.
const (
	OwnerUser    Owner = "user"
	OwnerDesktop Owner = "desktop"
	OwnerSystem  Owner = "system"
)

// ownerOf returns the owner of a child: the user, a desktop, or the system for all
// other parts of the program.
func ownerOf(c *supervise.Child) Owner {
	switch o := Owner(c.Owner()); o {
	case OwnerUser, OwnerDesktop:
		return o
	}
	return OwnerSystem
}

// partOf returns the name of the part of the system that owns a child, or "".
func partOf(c *supervise.Child) string {
	if ownerOf(c) != OwnerSystem || c.Owner() == string(OwnerSystem) {
		return ""
	}
	return c.Owner()
}

// Exit tells how a process ended.
type Exit struct {
	Code   *int   // nil: a signal killed it
	Signal string // that signal, "SIGKILL"; empty: it exited
}

func exitOf(e supervise.Exit) Exit {
	if e.Signal == 0 {
		return Exit{Code: new(e.Code)}
	}
	return Exit{Signal: signalName(e.Signal)}
}

// signalName returns "SIGTERM", or "SIG34" for one without a name.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(s))
}

// Info describes a process.
type Info struct {
	ID          string // "proc_7", unique in this program; the numbers increase
	Command     string
	Args        []string // not to be changed
	Dir         string   // empty: that of this program
	Terminal    bool
	Interactive bool
	Owner       Owner
	Part        string // which part of the system it belongs to, "agent"; empty: none has a name
	Running     bool
	PID         int   // zero once it has ended
	Exit        *Exit // nil while it runs
	Started     time.Time
	Ended       time.Time // zero while it runs

	number uint64
}

// Process is a program that was started, in the background. It stays readable
// after its end.
type Process struct {
	m       *Manager
	id      string
	owner   Owner
	info    Info // as it was at the start
	child   *supervise.Child
	log     *Log
	input   input
	foreign bool // of another group
	done    chan struct{}
	text    int // bytes of what info holds

	mu     sync.Mutex
	ending *ending // nil: nobody stops it
}

// Start starts a program in the background.
//
// The error is [ErrClosed], a [LimitError], an [InvalidError], or a
// [StartError] with what the system said.
func (m *Manager) Start(s Spec) (*Process, error) {
	s, err := s.check()
	if err != nil {
		return nil, err
	}
	sup, err := m.prepare(s)
	if err != nil {
		return nil, err
	}
	maxLog, err := m.reserve(s.Owner)
	if err != nil {
		return nil, err
	}
	p := &Process{m: m, owner: s.Owner, log: newLog(maxLog), done: make(chan struct{})}
	if s.Terminal {
		err = p.startTerminal(s, sup)
	} else {
		err = p.startPiped(sup)
	}
	if err != nil {
		m.mu.Lock()
		m.release(s.Owner)
		m.mu.Unlock()
		m.work.Done()
		return nil, startError(s.Command, err)
	}
	i := p.child.Info()
	p.id = i.ID
	p.info = Info{
		ID: i.ID, Command: s.Command, Args: s.Args, Dir: s.Dir, Terminal: s.Terminal, Interactive: s.Interactive,
		Owner: s.Owner, Running: true, PID: i.PID, Started: i.Started, number: numberOf(i.ID),
	}
	p.text = len(s.Command) + len(s.Dir)
	for _, a := range s.Args {
		p.text += len(a)
	}
	m.add(p)
	go p.watch()
	return p, nil
}

// startPiped starts a program whose input is a pipe of ours.
func (p *Process) startPiped(sup supervise.Spec) error {
	theirs, err := p.input.pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	sup.Stdin = theirs
	sup.Stdout = &intake{log: p.log, stream: stdout}
	sup.Stderr = &intake{log: p.log, stream: stderr}
	if p.child, err = p.m.group.Start(sup); err != nil {
		p.input.shut()
	}
	return err
}

// watch waits for the end and tells everybody: who follows the log last, for
// who comes to its end asks how the process ended.
func (p *Process) watch() {
	<-p.child.Done()
	p.input.shut()
	p.log.shrink()
	p.m.ended(p)
	close(p.done)
	p.log.finish()
	p.m.work.Done()
}

// weight is about the memory that remembering the process takes.
func (p *Process) weight() int { return p.text + p.log.weight() }

func numberOf(id string) uint64 {
	_, digits, _ := strings.Cut(id, "_")
	n, _ := strconv.ParseUint(digits, 10, 64)
	return n
}

// foreignProcess is a child of another group.
func foreignProcess(m *Manager, c *supervise.Child) *Process {
	p := &Process{
		m: m, id: c.ID(), owner: ownerOf(c), child: c, foreign: true, done: make(chan struct{}),
		log: newLog(DefaultLimits().MaxLog), info: foreignInfo(c),
	}
	p.log.source = c
	return p
}

func foreignInfo(c *supervise.Child) Info {
	i := c.Info()
	info := Info{
		ID: i.ID, Command: i.Path, Args: i.Args, Owner: ownerOf(c), Part: partOf(c), Running: true, PID: i.PID,
		Started: i.Started, number: numberOf(i.ID),
	}
	if !i.Running {
		info.over(i)
	}
	return info
}

// over adds how the process ended.
func (i *Info) over(end supervise.Info) {
	i.Running, i.PID = false, 0
	i.Exit = new(exitOf(end.Exit))
	i.Ended = end.Ended
}

// ID returns the identifier.
func (p *Process) ID() string { return p.id }

// Info describes the process as it is now.
func (p *Process) Info() Info {
	info := p.info
	if !p.Running() {
		info.over(p.child.Info())
	}
	return info
}

// Running tells whether the process has not ended yet. What it started may
// still run when it has.
func (p *Process) Running() bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// Done is closed when the process has ended and all that it wrote is in the
// log.
func (p *Process) Done() <-chan struct{} {
	if p.foreign {
		return p.child.Done()
	}
	return p.done
}

// Log returns what the process has written. That of a process which another
// part of the program started has its last 8 KiB at least, both streams as one.
func (p *Process) Log() *Log { return p.log }
