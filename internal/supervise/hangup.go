package supervise

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// hangUpAgain is the time between the first two SIGHUPs. It doubles each time.
	hangUpAgain = 250 * time.Millisecond

	// maskWait is the time between two reads of the masks of a child with SIGTERM
	// blocked.
	maskWait = time.Millisecond
)

// hangUp is the state of the SIGHUPs to a child with a terminal.
type hangUp struct {
	spared bool // the child gets none, because it ends by SIGTERM
	next   time.Time
	wait   time.Duration
}

// mustHangUp reports whether to send SIGHUP to a child with a terminal, because it
// ignores SIGTERM, as shells at a terminal do. It is called before SIGTERM is sent, and
// then repeatedly until the child has ended: a shell misses a SIGHUP that comes just
// before it begins to wait for input.
//
// A child that did not ignore SIGTERM is expected to end by it, and never gets SIGHUP. It
// may ignore further SIGTERMs while it ends, and need not handle SIGHUP.
func (c *Child) mustHangUp() bool {
	c.mu.Lock()
	due, sent := c.hangUpDue(), c.termed
	c.mu.Unlock()
	if !due {
		return false
	}
	m := stableMasks(c.pid, sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hangUpDue() {
		return false // a concurrent stop was faster
	}
	h := &c.hung
	switch {
	case has(m.ignored, syscall.SIGTERM):
	case m.changing():
		return false
	default:
		h.spared = true
		return false
	}
	if h.wait > 0 && !m.sleeps {
		return false // it may be about to end
	}
	h.wait = max(hangUpAgain, 2*h.wait)
	h.next = time.Now().Add(h.wait)
	return true
}

// hangUpDue reports whether the child may need a SIGHUP now. The caller holds c.mu.
func (c *Child) hangUpDue() bool {
	return c.tty && !c.hung.spared && !c.reaped && !time.Now().Before(c.hung.next)
}

// stableMasks returns the masks of a process. Before SIGTERM was sent it waits up to
// searchWait until they do not change.
func stableMasks(pid int, sent bool) masks {
	m := readMasks(pid)
	for end := time.Now().Add(searchWait); !sent && m.changing() && time.Now().Before(end); {
		<-time.After(maskWait)
		m = readMasks(pid)
	}
	return m
}

// masks are the signal masks of a process at one moment.
type masks struct {
	ignored, blocked uint64
	sleeps           bool
}

// changing reports whether the masks may be about to change. A shell that shows its
// prompt blocks SIGTERM for a moment and seems to handle it, because readline changes
// the action to read the previous one. A shell that starts a program blocks SIGTERM too,
// possibly for long, but also SIGCHLD, and its masks are final.
func (m masks) changing() bool {
	return has(m.blocked&^m.ignored, syscall.SIGTERM) && !has(m.blocked, syscall.SIGCHLD)
}

// readMasks reads /proc/PID/status. The id must be held. An ended process has empty
// masks.
func readMasks(pid int) masks {
	status := readStatus(pid)
	mask := func(name string) uint64 {
		bits, _ := strconv.ParseUint(strings.Join(status.words(name), ""), 16, 64)
		return bits
	}
	state, threads := append(status.words("State"), "")[0], status.words("Threads")
	if (state == "Z" || state == "X") && slices.Equal(threads, []string{"1"}) {
		return masks{} // the kernel still shows the old masks
	}
	return masks{ignored: mask("SigIgn"), blocked: mask("SigBlk"), sleeps: state == "S"}
}

func has(mask uint64, sig syscall.Signal) bool {
	return sig > 0 && sig <= 64 && mask>>(sig-1)&1 == 1
}
