package supervise

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// hangUpAgain is how long after a SIGHUP the next may follow; it doubles each
	// time.
	hangUpAgain = 250 * time.Millisecond

	// maskWait is how often to look at a child that has SIGTERM blocked.
	maskWait = time.Millisecond
)

// hangUp is what a child with a terminal was told of the terminal's end.
type hangUp struct {
	spared bool // SIGTERM does
	next   time.Time
	wait   time.Duration
}

// mustHangUp tells whether to tell a child that its terminal is gone (SIGHUP),
// because it ignores SIGTERM, as shells at a terminal do. It is asked before
// SIGTERM is sent, and then again and again until the child has ended: a shell
// misses a SIGHUP that comes just before it begins to wait for input. It would
// read the end of it were the terminal gone; here it sleeps on.
//
// One that once did not ignore SIGTERM ends by that: it may ignore more of them
// while it does, and need not handle SIGHUP.
func (c *Child) mustHangUp() bool {
	c.mu.Lock()
	due, sent := c.hangUpDue(), c.termed
	c.mu.Unlock()
	if !due {
		return false
	}
	m := settledMasks(c.pid, sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hangUpDue() {
		return false // somebody else who stops it was quicker
	}
	h := &c.hung
	switch {
	case has(m.ignored, syscall.SIGTERM):
	case m.unsettled():
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

// hangUpDue tells whether it is time to look at the child. The caller has c.mu.
func (c *Child) hangUpDue() bool {
	return c.tty && !c.hung.spared && !c.reaped && !time.Now().Before(c.hung.next)
}

// settledMasks waits, before SIGTERM is sent, until it can be told what a process
// does with that, but not for long.
func settledMasks(pid int, sent bool) masks {
	m := readMasks(pid)
	for end := time.Now().Add(lookWait); !sent && m.unsettled() && time.Now().Before(end); {
		<-time.After(maskWait)
		m = readMasks(pid)
	}
	return m
}

// masks tell what a process does with signals, all at the same moment.
type masks struct {
	ignored, blocked uint64
	sleeps           bool
}

// unsettled is true of a shell that comes to its prompt: it has SIGTERM blocked,
// and seems to handle it, for a moment, because readline asks what was done with
// it before by changing that. Who starts a program has it blocked, too, which may
// take long (dash lends the program its memory until then); but SIGCHLD as well,
// and does with SIGTERM what it seems to.
func (m masks) unsettled() bool {
	return has(m.blocked&^m.ignored, syscall.SIGTERM) && !has(m.blocked, syscall.SIGCHLD)
}

// readMasks reads /proc/PID/status. The number must be the process's own. One
// that has ended ignores and blocks nothing.
func readMasks(pid int) masks {
	status := readStatus(pid)
	mask := func(name string) uint64 {
		bits, _ := strconv.ParseUint(strings.Join(status.words(name), ""), 16, 64)
		return bits
	}
	state, threads := append(status.words("State"), "")[0], status.words("Threads")
	if (state == "Z" || state == "X") && slices.Equal(threads, []string{"1"}) {
		return masks{} // the kernel still tells what it was
	}
	return masks{ignored: mask("SigIgn"), blocked: mask("SigBlk"), sleeps: state == "S"}
}

func has(mask uint64, sig syscall.Signal) bool {
	return sig > 0 && sig <= 64 && mask>>(sig-1)&1 == 1
}
