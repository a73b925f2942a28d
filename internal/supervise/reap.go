package supervise

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reapWait is the time that other code of this program has to call wait for an ended process.
const reapWait = 500 * time.Millisecond

// Reap waits for orphans that the kernel made children of this program, until ctx ends.
// Then it returns nil. A program that is process 1 or a subreaper needs it, because
// ended processes keep their ids until their parent waits for them.
//
// Reap never waits for a child of a [Group]. It leaves children that the program started
// with os/exec alone for half a second after their end. If the program does not wait for
// such a child within that time, it loses the exit status.
func Reap(ctx context.Context) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	t := time.NewTimer(0) // processes may have ended before
	defer t.Stop()
	var r reaper
	scheduled := true // the timer runs
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			if !scheduled { // one search serves a burst of ends
				scheduled = true
				t.Reset(reapWait / 2)
			}
		case <-t.C:
			more, err := r.search()
			if err != nil {
				return fmt.Errorf("reap: %w", err)
			}
			if scheduled = more; more {
				t.Reset(reapWait)
			}
		}
	}
}

// reaper waits for orphans that it has seen twice.
type reaper struct {
	seen map[int]process
}

// search waits for orphans that it saw before. It reports whether there are others.
func (r *reaper) search() (more bool, err error) {
	now, err := orphans()
	if err != nil {
		return false, err
	}
	for pid, p := range now {
		if p.same(r.seen[pid]) {
			reapOrphan(p)
			delete(now, pid)
		}
	}
	r.seen = now
	return len(now) > 0, nil
}

// orphans returns the ended children of this program that do not belong to a group. An
// empty result is nil.
func orphans() (map[int]process, error) {
	// In nearly every case this cheap call shows that there are none.
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	if err == unix.ECHILD || err == nil && info.Signo == 0 {
		return nil, nil
	}
	all, _, err := processes()
	if err != nil {
		return nil, err
	}
	var found map[int]process
	self := os.Getpid()
	for pid, p := range all {
		if p.parent != self || !p.gone() || program.isChild(pid) {
			continue
		}
		if found == nil {
			found = make(map[int]process)
		}
		found[pid] = p
	}
	return found, nil
}

// reapOrphan waits for one process. Meanwhile no child with its id can start.
func reapOrphan(p process) {
	program.spawn.Lock()
	defer program.spawn.Unlock()
	if program.isChild(p.pid) {
		return
	}
	if now, err := readProcess(p.pid); err != nil || !now.same(p) || !now.gone() {
		return
	}
	_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
}
