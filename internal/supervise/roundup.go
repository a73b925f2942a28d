package supervise

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	killWait   = 5 * time.Second        // for processes to end after SIGKILL
	searchWait = 100 * time.Millisecond // between two searches for processes

	// searchTries is the number of consecutive searches without a result that end the
	// roundup, even if none of them is sure. While other processes start and end, no
	// search is sure.
	searchTries = 20

	execWait = 5 * time.Millisecond // for processes that execute another program
)

// LeftoverError names processes that SIGKILL did not end in time, because they are in an
// uninterruptible system call or belong to another user now.
type LeftoverError struct {
	PIDs []int
}

// Error implements error.
func (e *LeftoverError) Error() string {
	s := make([]string, len(e.PIDs))
	for i, pid := range e.PIDs {
		s[i] = strconv.Itoa(pid)
	}
	return "still running after SIGKILL: " + strings.Join(s, ", ")
}

// tag identifies processes: by the token of a group ("<token>") or of a child
// ("<token>.<number>") in their environment, or by the mark of a program.
type tag struct {
	text  string
	mark  mark
	since uint64 // ticks; a process that started earlier cannot belong
}

// in reports whether a value of GroupVariable has the tag.
func (t tag) in(lineage string) bool {
	for e := range strings.SplitSeq(lineage, ",") {
		rest, ok := strings.CutPrefix(e, t.text)
		if ok && t.text != "" && (rest == "" || rest[0] == '.') {
			return true
		}
	}
	return false
}

// roundup finds processes that belong together and ends them.
type roundup struct {
	tags    []tag
	leaders map[int]*Child // by process id, which is held while this runs
	spare   func(process, map[int]process) bool

	found  map[int]*target // running processes, by id
	dead   map[int]process // processes that had ended by the end of the last search, by id
	termed bool            // the leaders' groups got SIGTERM
	ended  int

	// partial are the environments that this search could read in part only, and before is
	// the previous search's partial. execs are the processes that may be executing another
	// program: their partial environments have changed since the previous search.
	partial, before map[int]environState
	execs           map[int]bool
}

// target is a process to end.
type target struct {
	process
	fd   int  // pidfd, or -1 if the kernel has none
	over bool // it has ended
	sent syscall.Signal
}

// endChildren ends children, and all processes that belong to them or have the tag.
func endChildren(ctx context.Context, kids []*Child, t tag, grace time.Duration) error {
	r := &roundup{tags: []tag{t}, leaders: make(map[int]*Child)}
	for _, c := range kids {
		if c.hold() {
			defer c.release()
			r.leaders[c.pid] = c
		}
	}
	return r.end(ctx, grace)
}

// end sends SIGTERM, and SIGKILL when the grace is over or ctx ends. It searches again
// until no process is left, because processes may fork meanwhile. A search may take long,
// so the grace counts from the first signal, and only a search that begins after the time
// for SIGKILL is the last one. All processes that it finds get the signal, too.
func (r *roundup) end(ctx context.Context, grace time.Duration) error {
	r.found = make(map[int]*target)
	defer r.close()
	sig := syscall.SIGTERM
	var until time.Time // zero before the first signal
	for unsure := 0; ; {
		last := sig == syscall.SIGKILL && time.Now().After(until)
		sure, err := r.search()
		if err != nil {
			return fmt.Errorf("look for processes: %w", err)
		}
		if len(r.found) == 0 {
			if unsure++; sure || unsure == searchTries {
				return nil
			}
			if len(r.execs) > 0 {
				<-time.After(execWait)
			}
			continue
		}
		unsure = 0
		now := time.Now()
		if until.IsZero() {
			until = now.Add(grace)
		}
		if sig == syscall.SIGTERM && (!now.Before(until) || ctx.Err() != nil) {
			sig, until = syscall.SIGKILL, now.Add(killWait)
		}
		r.signal(sig)
		if last {
			return r.leftover()
		}
		r.wait(ctx, sig, until)
	}
}

func (r *roundup) leftover() error {
	e := &LeftoverError{}
	for pid := range r.found {
		e.PIDs = append(e.PIDs, pid)
	}
	slices.Sort(e.PIDs)
	return e
}

func (r *roundup) close() {
	for _, q := range r.found {
		q.close()
	}
}

func (q *target) close() {
	if q.fd >= 0 {
		_ = unix.Close(q.fd)
	}
}

// search updates found. sure reports that it has found all processes: no process ended
// meanwhile, which could have started one after the listing, and none is executing
// another program.
func (r *roundup) search() (sure bool, err error) {
	all, missed, err := processes()
	if err != nil {
		return false, err
	}
	sure = r.updateDead(all, missed)
	for pid, q := range r.found {
		if p, ok := all[pid]; !ok || !p.same(q.process) || p.gone() {
			q.close()
			delete(r.found, pid)
			r.ended++
		}
	}
	for pid := range r.members(all) {
		if r.found[pid] != nil {
			continue
		}
		q := r.openTarget(all[pid], all)
		if q == nil {
			sure = false
			continue
		}
		r.found[pid] = q
	}
	return sure && len(r.execs) == 0, nil
}

// updateDead updates dead, and reports whether all ended processes had ended before this search.
// missed are the ids of processes that ended before they could be read.
func (r *roundup) updateDead(all map[int]process, missed []int) (before bool) {
	known := func(pid int) bool { q := r.found[pid]; return q != nil && q.over }
	before = !slices.ContainsFunc(missed, func(pid int) bool { return !known(pid) })
	dead := make(map[int]process)
	for pid, p := range all {
		if !p.gone() || !r.isYoung(p) {
			continue
		}
		dead[pid] = p
		if !p.same(r.dead[pid]) && !known(pid) {
			before = false
		}
	}
	r.dead = dead
	return before
}

// isYoung reports whether a process started late enough to belong.
func (r *roundup) isYoung(p process) bool {
	return slices.ContainsFunc(r.tags, func(t tag) bool { return p.start >= t.since })
}

// members returns the ids of all processes that belong, by their own attributes (see
// marked) or by descent.
func (r *roundup) members(all map[int]process) map[int]bool {
	r.before, r.partial, r.execs = r.partial, make(map[int]environState), make(map[int]bool)
	in := make(map[int]bool)
	for pid, p := range all {
		if (r.found[pid] != nil || r.marked(p)) && !r.spared(p, all) {
			in[pid] = true
		}
	}
	for grown := len(in) > 0; grown; {
		grown = false
		for pid, p := range all {
			if !in[pid] && in[p.parent] && descends(p, all[p.parent]) && !r.spared(p, all) {
				in[pid], grown = true, true
			}
		}
	}
	return in
}

func descends(p, parent process) bool {
	return p.parent == parent.pid && p.start >= parent.start && !p.gone()
}

// spared reports whether a process must not be ended even if it belongs: this program,
// its ancestors, and the processes that spare excepts.
func (r *roundup) spared(p process, all map[int]process) bool {
	self := os.Getpid()
	if p.pid == self || p.pid <= 1 || p.gone() {
		return true
	}
	for a, n := all[self], 0; a.parent > 0 && n < len(all); a, n = all[a.parent], n+1 {
		if a.parent == p.pid {
			return true
		}
	}
	return r.spare != nil && r.spare(p, all)
}

// marked reports whether a process belongs by its own attributes.
func (r *roundup) marked(p process) bool {
	return r.hasLeader(p) || r.tagged(p)
}

// hasLeader reports whether a process is one of the leaders, or in the process group or
// session of one.
func (r *roundup) hasLeader(p process) bool {
	return r.leaders[p.pid] != nil || r.leaders[p.group] != nil || r.leaders[p.session] != nil
}

// tagged reports whether a process has one of the tags. It checks the age first, which
// excludes nearly all other processes at no cost.
func (r *roundup) tagged(p process) bool {
	if !r.isYoung(p) {
		return false
	}
	return r.hasMark(p) && ownedByUs(p.pid) || r.hasToken(p)
}

func (r *roundup) hasMark(p process) bool {
	if !slices.ContainsFunc(r.tags, func(t tag) bool { return t.mark != 0 }) {
		return false
	}
	own, groups := markOf(p.pid), readStatus(p.pid).words("Groups")
	return slices.ContainsFunc(r.tags, func(t tag) bool { return t.mark != 0 && p.start >= t.since && t.mark.matches(own, groups) })
}

func (r *roundup) hasToken(p process) bool {
	l, state, certain := lineage(p.pid)
	if !certain {
		before, ok := r.before[p.pid]
		r.partial[p.pid] = state
		if !ok || state.code == 0 || state != before {
			r.execs[p.pid] = true
		}
	}
	return l != "" && ownedByUs(p.pid) &&
		slices.ContainsFunc(r.tags, func(t tag) bool { return p.start >= t.since && t.in(l) })
}

// openTarget opens a pidfd for a process and then checks that it is the process that was
// seen. If the id was reused before the pidfd was opened, the check fails. If it is
// reused later, the pidfd still refers to the old process. openTarget returns nil if the
// check fails, and the next search reads the process again.
func (r *roundup) openTarget(p process, all map[int]process) *target {
	fd, err := unix.PidfdOpen(p.pid, 0)
	switch err {
	case nil:
	case unix.ESRCH, unix.EINVAL:
		return nil
	default:
		fd = -1
	}
	q := &target{process: p, fd: fd}
	if r.belongs(p, all) {
		return q
	}
	q.close()
	return nil
}

// belongs reads a process again and reports whether it still belongs.
func (r *roundup) belongs(p process, all map[int]process) bool {
	now, err := readProcess(p.pid)
	if err != nil || !now.same(p) || now.gone() {
		return false
	}
	if r.marked(now) {
		return true
	}
	// It belongs by descent. The parent belonged when all were read. If it is still
	// the same process, and still the parent, the child still belongs.
	parent, err := readProcess(now.parent)
	return err == nil && parent.same(all[p.parent]) && descends(now, parent)
}

// signal sends a signal to all processes that have not had it.
func (r *roundup) signal(sig syscall.Signal) {
	for _, c := range r.leaders {
		if sig == syscall.SIGTERM {
			hangUp := c.mustHangUp() // before SIGTERM, whose handler may change the masks
			c.term()
			if hangUp {
				_ = c.signalGroup(syscall.SIGHUP)
			}
		} else {
			_ = c.signalGroup(sig)
		}
	}
	for _, q := range r.found {
		if q.sent == sig {
			continue
		}
		q.sent = sig
		if sig == syscall.SIGTERM && r.leaders[q.group] != nil && !r.termed {
			continue // signalGroup has just sent it
		}
		q.signal(sig)
		if sig == syscall.SIGTERM {
			q.signal(syscall.SIGCONT)
		}
	}
	r.termed = true
}

// signal sends a signal to one process. The next search finds a process that did not get
// it, so errors do not matter.
func (q *target) signal(sig syscall.Signal) {
	if q.fd >= 0 {
		_ = unix.PidfdSendSignal(q.fd, sig, nil, 0)
		return
	}
	if now, err := readProcess(q.pid); err == nil && now.same(q.process) {
		_ = unix.Kill(q.pid, sig)
	}
}

// wait returns when all found processes have ended, when it is time for another search, or
// when it is time for SIGKILL.
func (r *roundup) wait(ctx context.Context, sig syscall.Signal, until time.Time) {
	end := time.Now().Add(searchWait)
	if sig == syscall.SIGTERM && until.Before(end) {
		end = until
	}
	fds := make([]unix.PollFd, 0, len(r.found))
	byFD := make(map[int32]*target)
	for _, q := range r.found {
		fds = append(fds, unix.PollFd{Fd: int32(q.fd), Events: unix.POLLIN}) // poll ignores -1
		byFD[int32(q.fd)] = q
	}
	for len(fds) > 0 {
		left := time.Until(end)
		if left <= 0 || sig == syscall.SIGTERM && ctx.Err() != nil {
			return
		}
		step := min(left, 20*time.Millisecond)
		if _, err := unix.Poll(fds, int(step.Milliseconds())+1); err != nil && err != unix.EINTR {
			return
		}
		fds = slices.DeleteFunc(fds, func(f unix.PollFd) bool {
			if f.Revents&unix.POLLIN != 0 {
				byFD[f.Fd].over = true
			}
			return f.Revents != 0
		})
	}
}
