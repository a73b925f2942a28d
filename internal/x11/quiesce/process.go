package quiesce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// process is a process and its connections to the display.
type process struct {
	display *Display
	pid     int
	diag    *socketDiag // nil: sockets are not known
	sockets []uint32    // both ends of each connection
}

// watch finds the connections of a process. The caller closes the result.
func (d *Display) watch(pid int) *process {
	p := &process{display: d, pid: pid}
	diag, err := openSocketDiag()
	if err != nil {
		return p
	}
	if p.sockets, err = diag.displaySockets(pid, d.Number); err != nil {
		diag.close()
		return p
	}
	p.diag = diag
	return p
}

func (p *process) close() {
	if p.diag != nil {
		p.diag.close()
	}
}

const (
	// sleepChecks is how many consecutive checks must find a process in the same sleep. One is too
	// few for a program that opens a dialog, and waits for many answers of the X server.
	sleepChecks = 2
	// sleepTrips is the number of round trips to the server within each check.
	sleepTrips = 3
)

// waitWoken waits until the process has probably handled all events: it sleeps, wake wakes
// it, and it sleeps again. The first sleep is not enough: a program that flushes its
// requests before it sleeps may read events, which it handles only when it next wakes
// (xterm does, once in a few hundred times).
func (p *process) waitWoken(ctx context.Context, wake func()) error {
	sleeps, err := p.waitAsleep(ctx, nil)
	if err != nil {
		return err
	}
	wake()
	_, err = p.waitAsleep(ctx, sleeps)
	return err
}

// waitAsleep waits until the process sleeps, with nothing to read, and its threads have
// gone to sleep more often than in before. It returns how often each thread has gone to
// sleep.
func (p *process) waitAsleep(ctx context.Context, before []uint64) (sleeps []uint64, err error) {
	checks := 0
	err = p.display.poll(ctx, func() (bool, error) {
		now, err := p.display.asleep(p)
		switch checks++; {
		case now == nil || slices.Equal(now, before):
			checks = 0
		case !slices.Equal(now, sleeps): // it was awake meanwhile
			checks = 1
		}
		sleeps = now
		return checks == sleepChecks, err
	})
	return sleeps, err
}

// waitRead waits until the process and the server have read what they sent each other. It does
// not wait if the kernel does not describe sockets.
func (p *process) waitRead(ctx context.Context) error {
	return p.display.poll(ctx, func() (bool, error) { return !p.unread(), nil })
}

// unread reports whether the process or the server has sent something that the other has not
// read: a program with unread requests may sleep until it gets a reply. It returns false if
// the kernel does not describe sockets.
func (p *process) unread() bool {
	if p.diag == nil {
		return false
	}
	unread, err := p.diag.unread(p.sockets)
	return err == nil && unread
}

// asleep checks processes before and after some round trips to the server. The server
// serves its clients in turn, though some more often, so in that time it has probably answered
// the processes and sent their events, which wake a thread and stay unread until then. asleep returns how often each
// thread has gone to sleep, or nil if a thread was awake or something is unread. If the
// kernel does not list sockets, sleep alone counts. The error is fs.ErrNotExist if all
// processes have exited.
func (d *Display) asleep(all ...*process) ([]uint64, error) {
	pids := pidsOf(all)
	before, err := sleeps(pids...)
	if before == nil {
		return nil, err
	}
	for range sleepTrips {
		if err := request.Sync(d.X); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(all, (*process).unread) {
		return nil, nil
	}
	after, err := sleeps(pids...)
	if !slices.Equal(before, after) {
		return nil, err
	}
	return after, nil
}

// allAsleep reports whether all processes that have not exited sleep at the same time,
// with nothing to read.
func (d *Display) allAsleep(all []*process) (bool, error) {
	sleeps, err := d.asleep(all...)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return sleeps != nil, err
}

// sleeps returns how often each thread of the processes has gone to sleep, or nil if a
// thread is awake, or if there are more than maxAwake threads. It ignores processes that have
// exited, also zombies. The error is fs.ErrNotExist if all have exited.
func sleeps(pids ...int) (counts []uint64, err error) {
	left := maxAwake
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/task/"
		threads, err := firstNames(dir, left+1)
		if err != nil && !hasEnded(err) {
			return nil, fmt.Errorf("threads of process %d: %w", pid, err)
		}
		if left -= len(threads); left < 0 {
			return nil, nil
		}
		for _, thread := range threads {
			status, err := os.ReadFile(dir + thread + "/status")
			if hasEnded(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("threads of process %d: %w", pid, err)
			}
			switch count, state := parseStatus(status); state {
			case 'Z', 'X': // it has ended
			case 'S', 'I':
				counts = append(counts, count)
			default: // also T: a stopped thread is not asleep
				return nil, nil
			}
		}
	}
	if counts == nil {
		return nil, fmt.Errorf("threads of processes %v: %w", pids, fs.ErrNotExist)
	}
	return counts, nil
}

// hasEnded reports whether an error of /proc is about a process or thread that has
// ended (proc(5)).
func hasEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// statusLines yields the names and values of a status file (proc(5)).
func statusLines(b []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for line := range bytes.Lines(b) {
			name, value, _ := bytes.Cut(line, []byte(":"))
			if !yield(string(name), bytes.TrimSpace(value)) {
				return
			}
		}
	}
}

// parseStatus reads /proc/PID/task/TID/status.
func parseStatus(b []byte) (sleeps uint64, state byte) {
	for name, value := range statusLines(b) {
		switch name {
		case "State":
			if len(value) > 0 {
				state = value[0]
			}
		case "voluntary_ctxt_switches":
			sleeps, _ = strconv.ParseUint(string(value), 10, 64)
		}
	}
	return sleeps, state
}

// within calls f with a context that ends after limit at the latest.
func within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f(ctx)
}

const (
	// starvedMost is how many times longer a limit is at most if the machine is busy.
	starvedMost = 5
	// lookDelays is when a wait first looks how long processes wait for a processor.
	lookDelays = 10 * time.Millisecond
)

// withinWork is like within, but the time that processes wait for a processor does not count:
// their programs need longer on a busy machine. Most waits end before pids is called.
func withinWork(ctx context.Context, limit time.Duration, pids func() []int, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	begun := time.Now()
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		defer cancel()
		wait := func(left time.Duration) bool {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(left):
				return true
			}
		}
		if !wait(min(limit, lookDelays)) {
			return
		}
		all := pids()
		before := runDelays(all)
		for left := limit - time.Since(begun); left > 0 && wait(left); {
			left = min(limit+before.grown(runDelays(all)), starvedMost*limit) - time.Since(begun)
		}
	})
	return f(ctx)
}

// delays is how long each thread of each process has waited for a processor.
type delays map[int]map[string]time.Duration

// runDelays returns the delays of processes (Documentation/scheduler/sched-stats.rst), or none if
// the kernel does not tell. It looks at the first maxAwake threads.
func runDelays(pids []int) delays {
	all := delays{}
	left := maxAwake
	for i := 0; i < len(pids) && left > 0; i++ {
		pid := pids[i]
		dir := "/proc/" + strconv.Itoa(pid) + "/task/"
		threads, _ := firstNames(dir, left)
		left -= len(threads)
		for _, thread := range threads {
			stat, _ := os.ReadFile(dir + thread + "/schedstat")
			fields := bytes.Fields(stat)
			if len(fields) < 2 {
				continue
			}
			n, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			if all[pid] == nil {
				all[pid] = map[string]time.Duration{}
			}
			all[pid][thread] = time.Duration(n)
		}
	}
	return all
}

// grown returns how long the processes have waited since d: one may wait for another.
func (d delays) grown(now delays) (sum time.Duration) {
	for pid, threads := range now {
		var most time.Duration
		for thread, delay := range threads {
			most = max(most, delay-d[pid][thread])
		}
		sum += most
	}
	return sum
}
