package x11

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

	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"
)

// waitAsleep waits until a process has taken all that the server sent it, as
// far as can be seen from outside. It does so when it sleeps, is then woken by
// an event of ours, and sleeps again. The first sleep is not enough: a program
// that flushes its requests just before it sleeps may read events in doing so,
// which it then looks at only when it next wakes (xterm does, once in a few
// hundred times).
func (in *Input) waitAsleep(ctx context.Context, pid int, win xproto.Window) error {
	p := in.watch(pid)
	defer p.close()
	sleeps, err := in.waitQuiet(ctx, p, nil)
	if err != nil {
		return err
	}
	in.wake(win)
	_, err = in.waitQuiet(ctx, p, sleeps)
	return err
}

// watch finds the connections of a process. The result must be closed.
func (in *Input) watch(pid int) watched {
	p := watched{pid: pid}
	diag, err := openSocketDiag()
	if err != nil {
		return p
	}
	if p.sockets, err = diag.displaySockets(pid, in.c.number); err != nil {
		diag.close()
		return p
	}
	p.diag = diag
	return p
}

// waitResting waits until a process sleeps and has read what the server sent it,
// and, if before says how often its threads had gone to sleep, until that has
// changed. It returns how often they have. Unlike waitAsleep it looks once: it is
// for where a mistake means that somebody did not wait, and no more.
func (in *Input) waitResting(ctx context.Context, p watched, before []uint64) ([]uint64, error) {
	for look := firstLook; ; {
		sleeps, err := in.sleptThrough(p, 1)
		if err != nil || sleeps != nil && !slices.Equal(sleeps, before) {
			return sleeps, err
		}
		if err := in.beforeNext(ctx, &look); err != nil {
			return nil, err
		}
	}
}

// waitWoken has a process rest, wake by an event of ours, and rest again, as
// waitAsleep does.
func (in *Input) waitWoken(ctx context.Context, p watched, win xproto.Window) error {
	sleeps, err := in.waitResting(ctx, p, nil)
	if err != nil {
		return err
	}
	in.wake(win)
	_, err = in.waitResting(ctx, p, sleeps)
	return err
}

// waitRead waits until a process has read what the server sent it. Where the
// kernel does not tell, it does not wait.
func (in *Input) waitRead(ctx context.Context, p watched) error {
	for look := firstLook; p.toRead(); {
		if err := in.beforeNext(ctx, &look); err != nil {
			return err
		}
	}
	return nil
}

// Pauses between looks at an application, each longer than the one before:
// mostly it is done after a fraction of a millisecond, and one that is not needs
// the processor more than we do. Nothing is missed if they are long.
const (
	firstLook = 100 * time.Microsecond
	lastLook  = 4 * time.Millisecond
)

// beforeNext is the pause before the next look.
func (in *Input) beforeNext(ctx context.Context, look *time.Duration) error {
	select {
	case <-in.c.done:
		return ErrConnClosed
	case <-ctx.Done():
		return ErrNotDrained
	default:
	}
	pause := *look
	*look = min(pause*3/2, lastLook)
	if pause < time.Millisecond { // which Go's timers would make a millisecond
		span := unix.NsecToTimespec(pause.Nanoseconds())
		_ = unix.Nanosleep(&span, nil) // a shorter one does no harm
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-in.c.done:
		return ErrConnClosed
	case <-ctx.Done():
		return ErrNotDrained
	}
}

// wake sends the client that made a window an event that it knows nothing
// about. It comes after all others.
func (in *Input) wake(win xproto.Window) {
	m := xproto.ClientMessageEvent{
		Format: 32, Window: win, Type: in.names.slots, Data: xproto.ClientMessageDataUnionData32New(make([]uint32, 5)),
	}
	xproto.SendEvent(in.c.x, false, win, xproto.EventMaskNoEvent, string(m.Bytes()))
}

// waitQuiet waits until a process sleeps, with nothing to read, and since it
// had slept as often as before says has slept once more. It returns how often
// each thread has.
func (in *Input) waitQuiet(ctx context.Context, p watched, before []uint64) ([]uint64, error) {
	quiet := 0
	for look := firstLook; ; {
		sleeps, err := in.sleptThrough(p, 3)
		if err != nil {
			return nil, err
		}
		if quiet++; sleeps == nil || slices.Equal(sleeps, before) {
			quiet = 0
		}
		if quiet == quietLooks {
			return sleeps, nil
		}
		if err := in.beforeNext(ctx, &look); err != nil {
			return nil, err
		}
	}
}

// quietLooks is how often in a row a process must be found asleep.
const quietLooks = 2

// watched is a process and its connections to the display.
type watched struct {
	pid     int
	diag    *socketDiag // nil: sockets are not known
	sockets []uint32
}

func (p watched) close() {
	if p.diag != nil {
		p.diag.close()
	}
}

// toRead tells whether the server has sent something that the process has not
// read. Where the kernel does not tell, it says no.
func (p watched) toRead() bool {
	if p.diag == nil {
		return false
	}
	unread, err := p.diag.unread(p.sockets)
	return err == nil && unread
}

// sleptThrough looks at a process before and after a few round trips to the
// server. The server serves its clients in turn, so within these it has
// answered what the process had asked, and sent what it had to tell; either
// would have woken a thread, and left something to read until then. It returns
// how often each thread had gone to sleep, or nil when one was awake. Where the
// kernel does not tell of sockets, sleep alone must do.
func (in *Input) sleptThrough(p watched, trips int) ([]uint64, error) {
	before, err := readThreads(p.pid)
	if err != nil || !before.asleep {
		return nil, err
	}
	for range trips {
		if err := in.c.Sync(); err != nil {
			return nil, err
		}
	}
	if p.toRead() {
		return nil, nil
	}
	after, err := readThreads(p.pid)
	if err != nil || !after.asleep || !slices.Equal(before.sleeps, after.sleeps) {
		return nil, err
	}
	return after.sleeps, nil
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
