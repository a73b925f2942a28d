package x11

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"
)

// waitAsleep waits until a process has taken all that the server sent it, as
// far as can be seen from outside: nothing is unread in its sockets, all its
// threads sleep, and slept all through a few round trips of ours. The server
// serves its clients in turn, so within these it has answered what the process
// had asked, and has sent what it had to tell; either would have woken a
// thread. Where the kernel does not tell of sockets, sleep alone must do.
func (in *Input) waitAsleep(ctx context.Context, pid int) error {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	p := watched{pid: pid}
	if diag, err := openSocketDiag(); err == nil {
		defer diag.close()
		if p.sockets, err = diag.displaySockets(pid, in.c.number); err == nil {
			p.diag = diag
		}
	}
	for quiet := 0; ; {
		ok, err := in.sleptThrough(p)
		if err != nil {
			return err
		}
		if quiet++; !ok {
			quiet = 0
		}
		if quiet == quietLooks {
			return nil
		}
		select {
		case <-again.C:
		case <-in.c.done:
			return ErrConnClosed
		case <-ctx.Done():
			return ErrNotDrained
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

// sleptThrough says whether a process slept during round trips to the server,
// with nothing left to read.
func (in *Input) sleptThrough(p watched) (bool, error) {
	before, err := readThreads(p.pid)
	if err != nil || !before.asleep {
		return false, err
	}
	for range 3 {
		if err := in.c.Sync(); err != nil {
			return false, err
		}
	}
	if p.diag != nil {
		if unread, err := p.diag.unread(p.sockets); err == nil && unread {
			return false, nil
		}
	}
	after, err := readThreads(p.pid)
	return err == nil && after.asleep && slices.Equal(before.sleeps, after.sleeps), err
}

// threads is what the threads of a process do.
type threads struct {
	asleep bool
	sleeps []uint64 // how often each went to sleep
}

func readThreads(pid int) (threads, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	list, err := os.ReadDir(dir)
	if err != nil {
		return threads{}, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	t := threads{asleep: true}
	for _, e := range list {
		b, err := os.ReadFile(dir + e.Name() + "/status")
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return threads{}, fmt.Errorf("threads of process %d: %w", pid, err)
		}
		n, asleep := parseStatus(b)
		t.asleep = t.asleep && asleep
		t.sleeps = append(t.sleeps, n)
	}
	return t, nil
}

// parseStatus reads /proc/PID/task/TID/status (proc(5)).
func parseStatus(b []byte) (sleeps uint64, asleep bool) {
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(name) {
		case "State":
			// Z and X have ended; a stopped one (T) is not asleep.
			asleep = len(value) > 0 && bytes.IndexByte([]byte("SZXI"), value[0]) >= 0
		case "voluntary_ctxt_switches":
			sleeps, _ = strconv.ParseUint(string(value), 10, 64)
		}
	}
	return sleeps, asleep
}
