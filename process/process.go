package process

import (
	"cmp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// Owner is the part of the program that started a process.
type Owner string

// The owners. Desktops start processes of OwnerDesktop. A Spec may name the others.
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
	default:
		return OwnerSystem
	}
}

// partOf returns the name of the part of the system that owns a child, or "".
func partOf(c *supervise.Child) string {
	if ownerOf(c) != OwnerSystem || c.Owner() == string(OwnerSystem) {
		return ""
	}
	return c.Owner()
}

// Exit describes how a process ended.
type Exit struct {
	Code   *int   // exit status; nil if a signal killed the process
	Signal string // the signal, such as "SIGKILL", or empty
}

func exitOf(e supervise.Exit) Exit {
	if e.Signal == 0 {
		return Exit{Code: new(e.Code)}
	}
	return Exit{Signal: signalName(e.Signal)}
}

// signalName returns the name of a signal, such as "SIGTERM", or "SIG34" for a signal
// without a name.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(s))
}

// Info describes a process.
type Info struct {
	ID          string // such as "proc_7"; unique in this program, with increasing numbers
	Command     string
	Args        []string // the first 4 KiB, with an ellipsis where they are cut; read-only
	Dir         string   // empty for this program's working directory
	Terminal    bool
	Interactive bool
	Owner       Owner
	Part        string // the part of the system that it belongs to, such as "agent", or empty
	Running     bool
	PID         int   // zero once it has ended
	Exit        *Exit // nil while it runs
	Started     time.Time
	Ended       time.Time // zero while it runs

	number uint64
}

// Compare orders processes by their starts: the result is negative if i started before j, and
// positive if it started after j.
func (i Info) Compare(j Info) int { return cmp.Compare(i.number, j.number) }

// Process is a program in the background. Its methods also work after its end.
type Process struct {
	m       *Manager
	id      string
	owner   Owner
	info    Info // at the start
	child   *supervise.Child
	log     *Log
	input   input
	foreign bool // started by another part of the program
	done    chan struct{}
	text    int // bytes of the strings in info

	mu     sync.Mutex
	ending *ending // the last stop, or nil
}

// Start starts a program in the background. It returns when the system executes the
// program, and does not wait for output or for the end.
//
// It returns [ErrClosed], a [LimitError], an [InvalidError], or a [StartError].
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
		ID: i.ID, Command: s.Command, Args: i.Args, Dir: s.Dir, Terminal: s.Terminal, Interactive: s.Interactive,
		Owner: s.Owner, Running: true, PID: i.PID, Started: i.Started, number: i.Number,
	}
	p.text = len(s.Command) + len(s.Dir)
	for _, a := range i.Args {
		p.text += len(a)
	}
	m.add(p)
	go p.watch()
	return p, nil
}

// startPiped starts a program with pipes as its standard streams.
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
		p.input.close()
	}
	return err
}

// watch waits for the end of the process. It ends the log last, because a reader at the end
// of the log may call Info.
func (p *Process) watch() {
	<-p.child.Done()
	p.input.close()
	p.log.shrink()
	p.m.ended(p)
	close(p.done)
	p.log.finish()
	p.m.work.Done()
}

// weight returns the approximate size in memory of the process's record.
func (p *Process) weight() int { return p.text + p.log.weight() }

// foreignProcess returns the Process of a child of another group.
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
		Started: i.Started, number: i.Number,
	}
	if !i.Running {
		info.setEnd(i)
	}
	return info
}

// setEnd sets the fields that describe the process's end.
func (i *Info) setEnd(end supervise.Info) {
	i.Running, i.PID = false, 0
	i.Exit = new(exitOf(end.Exit))
	i.Ended = end.Ended
}

// ID returns the identifier.
func (p *Process) ID() string { return p.id }

// Info describes the process in its current state.
func (p *Process) Info() Info {
	info := p.info
	if !p.Running() {
		info.setEnd(p.child.Info())
	}
	return info
}

// Running reports whether the process runs. Processes that it started may still run
// after its end.
func (p *Process) Running() bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// Done is closed when the process has ended and all of its output is in the log.
func (p *Process) Done() <-chan struct{} {
	if p.foreign {
		return p.child.Done()
	}
	return p.done
}

// Log returns the process's output. For a process that another part of the program
// started, the log has at least the last 8 KiB, all as Stdout.
func (p *Process) Log() *Log { return p.log }
