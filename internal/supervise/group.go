package supervise

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrClosed says that a group was closed before or during the call.
var ErrClosed = errors.New("group of processes is closed")

const (
	defaultGrace = 2 * time.Second
	keepExited   = 64  // how many records of exited children a group keeps
	keepOpen     = 128 // how many pipes of exited children a group reads
)

// GroupConfig configures a [Group].
type GroupConfig struct {
	// Dir is the directory of the group's record for a later [Sweep]. The first start
	// writes the record, and makes Dir for this user only. Empty: no record, and Sweep
	// cannot end processes that a killed program left.
	Dir string

	// Owner is shown in lists, such as "desktop", "user" or "system".
	Owner string

	// Logger logs starts and ends at debug level, without arguments, which may hold
	// secrets. Nil: nothing is logged.
	Logger *slog.Logger

	// Grace is the time between SIGTERM and SIGKILL of children whose Spec sets none.
	// Zero: 2 s. Negative: none.
	Grace time.Duration
}

func (c GroupConfig) withDefaults() GroupConfig {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Grace = cmp.Or(c.Grace, defaultGrace)
	return c
}

// Group is a set of child processes that end together, at the latest when
// Close returns. Make one with [NewGroup].
type Group struct {
	cfg     GroupConfig
	token   string
	lineage string // of this program, with a comma at the end; empty if it is in no group
	since   uint64 // ticks; no member is older
	mark    mark

	recording sync.Mutex  // guards record
	record    *recordFile // nil before the first start, and without GroupConfig.Dir

	closing sync.Once
	err     error // of Close

	mu       sync.Mutex
	closed   bool
	starting sync.WaitGroup // added to only while not closed
	kids     []*Child       // in the order of their starts: all that run, and the last ended ones
	pumps    []*pump        // in the order of their starts
	users    *os.File       // the control group of children of other users, or nil
}

// NewGroup returns an empty group, which must be closed. It fails only if the clock since
// boot cannot be read.
func NewGroup(cfg GroupConfig) (*Group, error) {
	since, err := ticks()
	if err != nil {
		return nil, fmt.Errorf("new group: %w", err)
	}
	g := &Group{cfg: cfg.withDefaults(), token: newToken(), since: since}
	if outer := os.Getenv(GroupVariable); outer != "" {
		g.lineage = outer + ","
	}
	if p := program.guard.Load(); p != nil {
		g.lineage += p.token + ","
		g.mark = p.mark
	}
	program.add(g)
	return g, nil
}

// writeRecord writes the group's record unless it is written.
func (g *Group) writeRecord() (err error) {
	g.recording.Lock()
	defer g.recording.Unlock()
	if g.cfg.Dir == "" || g.record != nil {
		return nil
	}
	g.record, err = writeRecord(g.cfg.Dir, record{
		Token: g.token, PID: os.Getpid(), Boot: bootID(), Since: g.since, Mark: g.mark, Owner: g.cfg.Owner,
	})
	return err
}

// newToken returns 128 random bits as 32 hexadecimal digits.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Start starts a child. It returns when the child executes the program, and does not wait
// for output or for the end.
//
// It returns [ErrClosed] after Close, [ErrNotFound] if there is no such program,
// fs.ErrPermission if the program may not be executed, [ErrNoRoom] if the limit of
// processes is reached, os.ErrDeadlineExceeded if a child of another user does not execute
// its program within ten seconds, or the error of the working directory, of fork, of exec or of the
// write of the record.
func (g *Group) Start(s Spec) (*Child, error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		s.closeMaster()
		return nil, fmt.Errorf("start %s: %w", s.title(), ErrClosed)
	}
	g.starting.Add(1)
	g.mu.Unlock()
	defer g.starting.Done()

	if err := g.writeRecord(); err != nil {
		s.closeMaster()
		return nil, fmt.Errorf("start %s: %w", s.title(), err)
	}
	c, err := g.spawn(s)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.title(), err)
	}
	g.cfg.Logger.Debug("started a process", "id", c.id, "name", c.name, "pid", c.pid, "owner", g.cfg.Owner)
	return c, nil
}

// Run runs a program to its end and returns the ended child. Then, or when ctx ends, it
// ends the program and all processes that it started, as [Group.Close] does, and waits
// for them. It returns the cause if ctx ended first, and an error of Start or Close.
func Run(ctx context.Context, s Spec) (c *Child, err error) {
	g, err := NewGroup(GroupConfig{Owner: "system"})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := g.Close(); err == nil {
			err = closeErr
		}
	}()
	if c, err = g.Start(s); err != nil {
		return nil, err
	}
	select {
	case <-c.Done():
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s Spec) title() string {
	if s.Name != "" {
		return s.Name
	}
	return s.Path[strings.LastIndexByte(s.Path, '/')+1:]
}

// Children lists the group's children in the order of their starts: all that run, and
// the last 64 that have ended.
func (g *Group) Children() []Info {
	g.mu.Lock()
	kids := slices.Clone(g.kids)
	g.mu.Unlock()
	infos := make([]Info, len(kids))
	for i, c := range kids {
		infos[i] = c.Info()
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Number, b.Number) })
	return infos
}

// keep registers a child that has just started.
func (g *Group) keep(c *Child) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kids = append(g.kids, c)
	g.pumps = append(g.pumps, c.pumps...)
}

// prune forgets the oldest children that have ended if there are too many, and closes the
// oldest of their pipes that other processes keep open.
func (g *Group) prune() {
	g.mu.Lock()
	defer g.mu.Unlock()
	ended := 0
	for _, k := range g.kids {
		if k.ended() {
			ended++
		}
	}
	g.kids = slices.DeleteFunc(g.kids, func(k *Child) bool {
		if ended > keepExited && k.ended() {
			ended--
			return true
		}
		return false
	})
	open := 0
	for _, p := range slices.Backward(g.pumps) {
		if !p.isDrained() {
			continue
		}
		if open++; open > keepOpen {
			_ = p.r.Close()
		}
	}
}

// drop forgets a child that has ended.
func (g *Group) drop(c *Child) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.kids, c)
	if i < 0 || !c.ended() {
		return false
	}
	g.kids = slices.Delete(g.kids, i, i+1)
	return true
}

// find returns a child by its identifier.
func (g *Group) find(id string) *Child {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.kids {
		if c.id == id {
			return c
		}
	}
	return nil
}

// forget drops a pump that has ended.
func (g *Group) forget(p *pump) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.pumps, p); i >= 0 {
		g.pumps = slices.Delete(g.pumps, i, i+1)
	}
}

// Close ends all children and the processes that they started, inside and outside of
// their process groups: SIGTERM, then SIGKILL after the longest grace of running
// children. If no child runs, the grace is the group's. Then it kills what is left in the control
// group of children of other users.
//
// Close returns when no process is left, or a [LeftoverError] five seconds after SIGKILL.
// It also returns errors of /proc and of the group's record. Further calls wait for the
// first one and return its error.
func (g *Group) Close() error {
	g.closing.Do(func() { g.err = g.close() })
	return g.err
}

func (g *Group) close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.starting.Wait()

	g.mu.Lock()
	kids := slices.Clone(g.kids)
	g.mu.Unlock()
	grace := time.Duration(0)
	for _, c := range kids {
		if !c.ended() {
			grace = max(grace, c.grace)
		}
	}
	if grace == 0 {
		grace = max(0, g.cfg.Grace) // for processes that ended children started
	}
	err := endChildren(context.Background(), kids, tag{text: g.token, since: g.since}, grace)
	err = errors.Join(err, g.endUsersCgroup())
	if err == nil {
		for _, c := range kids {
			<-c.done
		}
	}
	g.closePumps()
	if g.record != nil {
		// If processes are left, the record stays for a later sweep.
		err = errors.Join(err, g.record.close(err == nil))
	}
	program.remove(g)
	if err != nil {
		return fmt.Errorf("close group %s: %w", g.cfg.Owner, err)
	}
	return nil
}

// closePumps ends the pumps whose pipes a process outside of this group holds: it got
// the descriptor in a message, or could not be found.
func (g *Group) closePumps() {
	g.mu.Lock()
	pumps := slices.Clone(g.pumps)
	g.mu.Unlock()
	t := time.NewTimer(drainWait)
	defer t.Stop()
	for _, p := range pumps {
		select {
		case <-p.done:
			continue
		case <-t.C:
			t.Reset(0) // the others get no more time
		}
		_ = p.r.Close()
	}
}
