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
	"time"

	"golang.org/x/sys/unix"
)

// process is a process and its connections to the display.
type process struct {
	display *Display
	pid     int
	diag    *socketDiag // nil: sockets are not known
	sockets []uint32
}

// watch finds the connections of a process. The result must be closed.
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

// waitAsleep waits until the process has taken all that the server sent it, as far as
// can be seen from outside. It does so when it sleeps, is then woken by wake, and
// sleeps again. The first sleep is not enough: a program that flushes its requests
// just before it sleeps may read events in doing so, which it then looks at only when
// it next wakes (xterm does, once in a few hundred times).
func (p *process) waitAsleep(ctx context.Context, wake func()) error {
	sleeps, err := p.waitQuiet(ctx, nil)
	if err != nil {
		return err
	}
	wake()
	_, err = p.waitQuiet(ctx, sleeps)
	return err
}

// waitQuiet waits until the process sleeps, with nothing to read, and since its
// threads had slept as often as before says has slept once more. It returns how often
// each thread has.
func (p *process) waitQuiet(ctx context.Context, before []uint64) ([]uint64, error) {
	quiet := 0
	for look := firstLook; ; {
		sleeps, err := p.sleptThrough(3)
		if err != nil {
			return nil, err
		}
		if quiet++; sleeps == nil || slices.Equal(sleeps, before) {
			quiet = 0
		}
		if quiet == quietLooks {
			return sleeps, nil
		}
		if err := p.display.pause(ctx, &look); err != nil {
			return nil, err
		}
	}
}

// quietLooks is how often in a row waitQuiet must find a process asleep.
const quietLooks = 2

// waitWoken has the process rest, wake by wake, and rest again. Unlike waitAsleep it
// looks once: a mistake here only means that the caller did not wait.
func (p *process) waitWoken(ctx context.Context, wake func()) error {
	sleeps, err := p.waitResting(ctx, nil)
	if err != nil {
		return err
	}
	wake()
	_, err = p.waitResting(ctx, sleeps)
	return err
}

// waitResting waits until the process sleeps and has read what the server sent it,
// and, if before says how often its threads had gone to sleep, until that has
// changed. It returns how often they have.
func (p *process) waitResting(ctx context.Context, before []uint64) ([]uint64, error) {
	for look := firstLook; ; {
		sleeps, err := p.sleptThrough(1)
		if err != nil || sleeps != nil && !slices.Equal(sleeps, before) {
			return sleeps, err
		}
		if err := p.display.pause(ctx, &look); err != nil {
			return nil, err
		}
	}
}

// waitRead waits until the process has read what the server sent it. It does not wait
// if the kernel does not tell.
func (p *process) waitRead(ctx context.Context) error {
	for look := firstLook; p.unread(); {
		if err := p.display.pause(ctx, &look); err != nil {
			return err
		}
	}
	return nil
}

// unread reports whether the server has sent something that the process has not
// read. It returns false if the kernel does not tell.
func (p *process) unread() bool {
	if p.diag == nil {
		return false
	}
	unread, err := p.diag.unread(p.sockets)
	return err == nil && unread
}

// sleptThrough looks at the process before and after a few round trips to the
// server. The server serves its clients in turn, so within these it has answered what
// the process had asked, and sent what it had to tell. Either would have woken a
// thread, and left something to read until then. It returns how often each thread had
// gone to sleep, or nil if a thread was awake. If the kernel does not tell of
// sockets, sleep alone counts.
func (p *process) sleptThrough(trips int) ([]uint64, error) {
	before, err := readThreads(p.pid)
	if err != nil || !before.asleep {
		return nil, err
	}
	for range trips {
		if err := p.display.sync(); err != nil {
			return nil, err
		}
	}
	if p.unread() {
		return nil, nil
	}
	after, err := readThreads(p.pid)
	if err != nil || !after.asleep || !slices.Equal(before.sleeps, after.sleeps) {
		return nil, err
	}
	return after.sleeps, nil
}

// allRest reports whether all processes sleep, with nothing to read, at the same
// time. Processes that have ended do not count.
func (d *Display) allRest(all []*process) (bool, error) {
	before := make([]threads, len(all))
	for i, p := range all {
		t, err := readThreads(p.pid)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, err
		case !t.asleep:
			return false, nil
		}
		before[i] = t
	}
	if err := d.sync(); err != nil {
		return false, err
	}
	for i, p := range all {
		if p.unread() {
			return false, nil
		}
		t, err := readThreads(p.pid)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, err
		case !t.asleep || !slices.Equal(t.sleeps, before[i].sleeps):
			return false, nil
		}
	}
	return true, nil
}

// threads is what the threads of a process do.
type threads struct {
	asleep bool
	sleeps []uint64 // how often each went to sleep
}

// readThreads looks at the threads of a process. The error is fs.ErrNotExist
// once it has exited, even if its parent has not asked yet.
func readThreads(pid int) (threads, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	list, err := os.ReadDir(dir)
	if err != nil {
		return threads{}, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	t := threads{asleep: true}
	for _, e := range list {
		b, err := os.ReadFile(dir + e.Name() + "/status")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return threads{}, fmt.Errorf("threads of process %d: %w", pid, err)
		}
		sleeps, state := parseStatus(b)
		switch state {
		case 'Z', 'X': // it has ended
			continue
		case 'S', 'I':
		default: // also T: a stopped thread is not asleep
			t.asleep = false
		}
		t.sleeps = append(t.sleeps, sleeps)
	}
	if len(t.sleeps) == 0 {
		return threads{}, fmt.Errorf("threads of process %d: %w", pid, fs.ErrNotExist)
	}
	return t, nil
}

// statusLines is the names and values of /proc/PID/status, or of a thread's
// (proc(5)).
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
