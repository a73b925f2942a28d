package process

import (
	"cmp"
	"context"
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

// Config configures a [Manager]. The zero value is usable.
type Config struct {
	// Dir is the directory of the manager's record. If this program is killed, the
	// next New with the same Dir uses the record to end the processes that are left.
	// The first start of a process writes the record and makes Dir. Empty: no record,
	// and only direct children end with a killed program.
	Dir string

	// Environ is the environment of processes, to which each Spec adds. Nil: this
	// program's, without DESKHAND_* and SANDBOX_AGENT_TOKEN.
	Environ []string

	// Limits bound the resources of processes. Each zero field has a default.
	Limits Limits

	// MaxRecords is the maximum number of records of exited processes. Zero: 512. The
	// oldest records are dropped earlier if the logs and arguments of all records
	// together exceed 64 MiB. The newest record is always kept.
	MaxRecords int

	// OnChange is called after each start, end and removal of a process of this manager. It
	// must be quick and must not call the manager. Nil: none.
	OnChange func(Change, Info)

	// Logger logs starts and ends at debug level, without arguments, which may hold
	// secrets. Nil: nothing is logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.withDefaults()
	c.MaxRecords = cmp.Or(c.MaxRecords, defaultRecords)
	if c.Environ != nil {
		c.Environ = supervise.Environ(c.Environ) // a copy with each name once
	}
	if c.OnChange == nil {
		c.OnChange = func(Change, Info) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Change is a change of a process.
type Change string

// The changes. A record is removed by Remove, or by the manager to make room.
const (
	Created Change = "created"
	Exited  Change = "exited"
	Removed Change = "deleted"
)

// Manager starts, watches and ends programs. Make one with [New].
type Manager struct {
	cfg   Config
	group *supervise.Group
	runs  gate

	ctx     context.Context //nolint:containedctx // ends in Close, after the manager's own processes
	cancel  context.CancelFunc
	closing sync.Once
	err     error // of Close

	mu      sync.Mutex
	closed  bool
	work    sync.WaitGroup // added to only while not closed
	limits  Limits
	running int // managed processes of OwnerUser that run or are about to start
	procs   map[string]*Process
	exited  []*Process          // the ended processes of procs, in the order of their ends
	foreign map[string]*Process // children of other groups that Find has returned
}

// New returns a manager, which must be closed. It first ends processes that an earlier
// program with the same Config.Dir left running: with SIGTERM, after half a second with
// SIGKILL. It waits for them, for up to five seconds after SIGKILL.
//
// New returns an [InvalidError] for a negative limit, or the error of reading the records
// or ending the processes.
func New(cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	limits, err := cfg.Limits.check()
	if err != nil {
		return nil, fmt.Errorf("new process manager: %w", err)
	}
	if cfg.MaxRecords < 0 {
		return nil, fmt.Errorf("new process manager: %w", &InvalidError{Field: "MaxRecords", Reason: "must not be negative"})
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
		procs: make(map[string]*Process), foreign: make(map[string]*Process),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.runs.setLimit(limits.MaxProcesses)
	return m, nil
}

// Close ends all processes and the processes that they started: with SIGTERM, after two
// seconds with SIGKILL. It waits for them and for running calls of Run. If processes are
// left five seconds after SIGKILL, it returns an error that names them. Further calls
// wait for the first one and return its error.
func (m *Manager) Close() error {
	m.closing.Do(func() {
		m.mu.Lock()
		m.closed = true
		m.mu.Unlock()
		m.runs.close()
		m.err = m.group.Close()
		m.cancel() // kills processes of other groups that are being stopped
		m.work.Wait()
	})
	return m.err
}

// addWork makes Close wait for m.work.Done.
func (m *Manager) addWork() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.work.Add(1)
	return nil
}

// Limits returns the current limits.
func (m *Manager) Limits() Limits {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limits
}

// SetLimits changes all limits, also for running processes. A lower MaxProcesses ends no
// process. If a limit is zero or negative, SetLimits returns an [InvalidError] and
// changes nothing: zero does not stand for the default here.
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

// Find returns the process with an identifier, which another part of the program may have
// started. It returns [ErrNotFound] if there is none, and [ErrClosed] after Close.
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

// forgetForeign drops children that their groups have forgotten. The caller holds
// m.mu.
func (m *Manager) forgetForeign() {
	for id := range m.foreign {
		if supervise.Find(id) == nil {
			delete(m.foreign, id)
		}
	}
}

// List describes all processes of an owner, running or ended, in the order of their
// starts. The owner "" selects the processes of all owners. List returns nil after Close.
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
	slices.SortFunc(infos, Info.Compare)
	return infos
}

// Remove forgets an ended process. It returns [ErrNotFound], [ErrRunning] if the process
// runs, or [ErrClosed] after Close. Readers of its log can continue.
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
	delete(m.procs, p.id)
	m.exited = slices.DeleteFunc(m.exited, func(old *Process) bool { return old == p })
	m.cfg.OnChange(Removed, p.Info())
	return nil
}

// reserve counts a process that is about to start, or returns ErrClosed or a LimitError.
// Close waits for m.work.Done.
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

// release undoes the counting of reserve. The caller holds m.mu.
func (m *Manager) release(owner Owner) {
	if owner == OwnerUser {
		m.running--
	}
}

func (m *Manager) add(p *Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.procs[p.id] = p
	p.log.setLimit(m.limits.MaxLog) // it may have changed meanwhile
	m.cfg.OnChange(Created, p.info)
}

// ended registers the end of a process, and drops the oldest records if there are too
// many.
func (m *Manager) ended(p *Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(p.owner)
	m.exited = append(m.exited, p)
	info := p.info
	info.setEnd(p.child.Info())
	m.cfg.OnChange(Exited, info)
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
		m.cfg.OnChange(Removed, old.Info())
	}
	m.exited = slices.Delete(m.exited, 0, keep)
}
