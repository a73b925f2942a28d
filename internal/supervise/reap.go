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

// reapWait is how long an ended process is left to whoever may be about to wait
// for it.
const reapWait = 500 * time.Millisecond

// BecomeSubreaper makes orphaned descendants of this program its children
// instead of those of process 1 (PR_SET_CHILD_SUBREAPER, prctl(2)), for a
// container whose process 1 does not wait for them. It makes [Reap] necessary.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

// Reap waits for orphans that this program was given, until ctx ends; then it
// returns nil. A program that is process 1, or a subreaper, needs it: ended
// processes take up numbers until somebody waits for them.
//
// It never waits for a child of a [Group]. Children which the program started
// in other ways (os/exec) are left alone for half a second after they have
// ended; a program that does not wait for such a child within that time loses
// its exit status.
//
// It costs nothing while no process ends.
func Reap(ctx context.Context) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	t := time.NewTimer(0) // some may have ended before
	defer t.Stop()
	var r reaper
	looking := true // the timer runs
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			if !looking { // a burst of ends is looked at once
				looking = true
				t.Reset(reapWait / 2)
			}
		case <-t.C:
			more, err := r.look()
			if err != nil {
				return fmt.Errorf("reap: %w", err)
			}
			if looking = more; more {
				t.Reset(reapWait)
			}
		}
	}
}

// reaper waits for orphans at second sight.
type reaper struct {
	seen map[int]process
}

// look tells whether there are some that it has not waited for.
func (r *reaper) look() (more bool, err error) {
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

// orphans returns the children of this program that have ended and are not
// those of a group. An empty result is nil.
func orphans() (map[int]process, error) {
	// One cheap question rules out nearly every case: is there any?
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

// reapOrphan waits for one process. No child can be born meanwhile that has its
// number.
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
