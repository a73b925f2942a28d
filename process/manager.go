package process

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	defaultRecords = 512

	// maxWeight bounds the logs and arguments of all exited processes together,
	// in bytes.
	maxWeight = 64 << 20
)

// Config configures a [Manager]. The zero value is a good one.
type Config struct {
	// Dir is where the manager keeps the record by which its next start ends
	// what this program left running when it was killed. The first start of a
	// process writes the record, and makes Dir if it is not there. Empty: no
	// record; direct children die with the program even so, but not what they
	// started.
	Dir string

	// Environ is the environment of processes, to which each Spec adds. Nil:
	// that of this program, without DESKHAND_* and SANDBOX_AGENT_TOKEN.
	Environ []string

	// Limits bound what processes take; each zero field has a default.
	Limits Limits

	// MaxRecords is how many exited processes are remembered. Fewer are if
	// their logs have more than 64 MiB together. Zero: 512.
	MaxRecords int

	// Logger hears of starts and ends, at debug level, without arguments, which
	// may hold secrets. Nil: nobody does.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.withDefaults()
	if c.MaxRecords == 0 {
		c.MaxRecords = defaultRecords
	}
	if c.Environ != nil {
		c.Environ = supervise.Environ(c.Environ) // each name once, and ours alone
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Manager starts, watches and ends programs. Make one with [New].
type Manager struct {
	cfg   Config
	group *supervise.Group
	runs  gate

	closing sync.Once
	err     error // of Close

	mu      sync.Mutex
	closed  bool
	work    sync.WaitGroup // added to only while not closed
	limits  Limits
	running int // managed processes of owner user, and those that are about to start
	procs   map[string]*Process
	exited  []*Process          // those of procs that have ended, in that order
	foreign map[string]*Process // children of other groups that somebody asked for
	endings map[*ending]struct{}
}

// New makes a manager. It must be closed. What an earlier program left running
// whose records are in Config.Dir is ended.
func New(cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	limits, err := cfg.Limits.check()
	if err != nil {
		return nil, fmt.Errorf("new process manager: %w", err)
	}
	if cfg.MaxRecords < 0 {
		return nil, fmt.Errorf("new process manager: %w", &InvalidError{Field: "maxRecords", Problem: "must not be negative"})
	}
	if cfg.Dir != "" {
		if _, err := supervise.Sweep(cfg.Dir, cfg.Logger); err != nil {
			return nil, fmt.Errorf("new process manager: %w", err)
		}
	}
	group, err := supervise.NewGroup(supervise.GroupConfig{Dir: cfg.Dir, Owner: string(OwnerUser), Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("new process manager: %w", err)
	}
	m := &Manager{
		cfg: cfg, group: group, limits: limits,
		procs: make(map[string]*Process), foreign: make(map[string]*Process), endings: make(map[*ending]struct{}),
	}
	m.runs.setLimit(limits.MaxProcesses)
	return m, nil
}

// Close ends all processes and what they started, waits for that, and for the
// calls of Run that are under way. Later and simultaneous calls wait for the
// first one and return the same.
func (m *Manager) Close() error {
	m.closing.Do(func() {
		m.mu.Lock()
		m.closed = true
		m.mu.Unlock()
		m.runs.close()
		m.err = m.group.Close()
		m.hurry()
		m.work.Wait()
	})
	return m.err
}

// begin keeps Close from returning until m.work.Done.
func (m *Manager) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.work.Add(1)
	return nil
}

// Limits returns the limits that are in force.
func (m *Manager) Limits() Limits {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limits
}

// SetLimits changes all limits at once, for running processes too; those which
// run above a lower MaxProcesses go on. Each must be positive, else the error
// is an [InvalidError] and nothing changes.
func (m *Manager) SetLimits(limits Limits) error {
	limits, err := limits.check()
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.limits = limits
	m.runs.setLimit(limits.MaxProcesses)
	for _, p := range m.procs {
		p.log.setLimit(limits.MaxLog)
	}
	m.mu.Unlock()
	return nil
}

// Find returns a process by its identifier, also one that another part of the
// program started, or [ErrNotFound].
func (m *Manager) Find(id string) (*Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if p := m.procs[id]; p != nil {
		return p, nil
	}
	c := supervise.Find(id)
	if c == nil || ownerOf(c) == OwnerUser {
		return nil, fmt.Errorf("%w: %.40q", ErrNotFound, id)
	}
	if p := m.foreign[id]; p != nil {
		return p, nil
	}
	m.forgetForeign()
	p := foreignProcess(m, c)
	m.foreign[id] = p
	return p, nil
}

// forgetForeign drops what was remembered of children which their groups have
// forgotten. The caller has m.mu.
func (m *Manager) forgetForeign() {
	for id := range m.foreign {
		if supervise.Find(id) == nil {
			delete(m.foreign, id)
		}
	}
}

// List describes all processes of an owner, or of all owners for an empty one,
// in the order in which they were started. After Close there are none.
func (m *Manager) List(owner Owner) []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	infos := make([]Info, 0, len(m.procs))
	for _, p := range m.procs {
		if owner == "" || owner == p.owner {
			infos = append(infos, p.Info())
		}
	}
	if owner != OwnerUser {
		for _, c := range supervise.Others(m.group) {
			if o := ownerOf(c); o != OwnerUser && (owner == "" || owner == o) {
				infos = append(infos, foreignInfo(c))
			}
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.number, b.number) })
	return infos
}

// Remove forgets a process that has ended. It returns [ErrNotFound], or
// [ErrRunning] while it runs. Readers of its log read on.
func (m *Manager) Remove(id string) error {
	p, err := m.Find(id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.Running() {
		return ErrRunning
	}
	if p.foreign {
		p.child.Forget()
		delete(m.foreign, id)
		return nil
	}
	m.forget(p)
	return nil
}

// forget drops a process that has ended. The caller has m.mu.
func (m *Manager) forget(p *Process) {
	delete(m.procs, p.id)
	if i := slices.Index(m.exited, p); i >= 0 {
		m.exited = slices.Delete(m.exited, i, i+1)
	}
}

// reserve makes room for a process that is about to start, or says why there
// is none. Close waits for m.work.Done.
func (m *Manager) reserve(owner Owner) (maxLog int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, ErrClosed
	}
	if owner == OwnerUser {
		if m.running >= m.limits.MaxProcesses {
			return 0, &LimitError{Limit: m.limits.MaxProcesses}
		}
		m.running++
	}
	m.work.Add(1)
	return m.limits.MaxLog, nil
}

// release gives the room back. The caller has m.mu.
func (m *Manager) release(owner Owner) {
	if owner == OwnerUser {
		m.running--
	}
}

// add makes a started process known.
func (m *Manager) add(p *Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.procs[p.id] = p
	p.log.setLimit(m.limits.MaxLog) // it may have changed meanwhile
}

// ended takes note that a process has ended, and drops the records of the
// oldest if there are too many.
func (m *Manager) ended(p *Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(p.owner)
	m.exited = append(m.exited, p)
	weight := 0
	keep := len(m.exited)
	for ; keep > 0; keep-- { // from the newest
		weight += m.exited[keep-1].weight()
		if n := len(m.exited) - keep + 1; n > m.cfg.MaxRecords || n > 1 && weight > maxWeight {
			break
		}
	}
	for _, old := range m.exited[:keep] {
		delete(m.procs, old.id)
	}
	m.exited = slices.Delete(m.exited, 0, keep)
}
