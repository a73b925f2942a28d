package supervise

import (
	"strconv"
	"syscall"
	"time"
)

// hangUpAgain is how long after a SIGHUP the next may follow; it doubles each
// time.
const hangUpAgain = 250 * time.Millisecond

// hangUp is what a child with a terminal was told of the terminal's end.
type hangUp struct {
	spared bool // SIGTERM does
	next   time.Time
	wait   time.Duration
}

// hangUp tells a child that ignores SIGTERM, as shells at a terminal do, that
// its terminal is gone. It is called again and again until the child has ended:
//
//   - A shell at its prompt has SIGTERM blocked, and seems to handle it, for a
//     moment: readline asks what was done with it before by changing that.
//   - A shell misses a SIGHUP that comes just before it begins to wait for input.
//     It would read the end of it were the terminal gone; here it sleeps on.
//
// One that once did not ignore SIGTERM ends by that: it may ignore more of them
// while it does, and need not handle SIGHUP.
func (c *Child) hangUp(now time.Time) {
	if !c.tty {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.hung
	if h.spared || c.reaped || now.Before(h.next) {
		return
	}
	ignored, blocked := c.signalMask("SigIgn"), c.signalMask("SigBlk")
	switch {
	case has(ignored, syscall.SIGTERM):
	case has(blocked, syscall.SIGTERM):
		return
	default:
		h.spared = true
		return
	}
	if h.wait > 0 && !c.sleeps() {
		return // it may be about to end
	}
	h.wait = max(hangUpAgain, 2*h.wait)
	h.next = now.Add(h.wait)
	_ = syscall.Kill(-c.pid, syscall.SIGHUP)
}

// signalMask returns one of the masks of signals in /proc/PID/status. The
// child's number must be its own.
func (c *Child) signalMask(name string) uint64 {
	mask := statusFields(c.pid, name)
	if len(mask) != 1 {
		return 0
	}
	bits, _ := strconv.ParseUint(mask[0], 16, 64)
	return bits
}

func has(mask uint64, sig syscall.Signal) bool {
	return sig > 0 && sig <= 64 && mask>>(sig-1)&1 == 1
}

func (c *Child) sleeps() bool {
	state := statusFields(c.pid, "State")
	return len(state) > 0 && state[0] == "S"
}
