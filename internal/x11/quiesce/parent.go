package quiesce

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// parent is a process with children, such as a terminal.
type parent struct {
	pid      int
	children []int
	runs     bool // a child does, such as the shell of a terminal that handles a key, or the shell starts a program
	ends     bool // a child is a zombie, or has a pending signal that ends it
	terminal bool // a child has a terminal that is not its parent's

	// newest is when the newest of these children with terminals started, to a hundredth of a second.
	newest time.Time
}

// endSignals are signals that end most programs.
const endSignals = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGKILL-1) | 1<<(unix.SIGTERM-1)

// parentOf looks at the children of a process.
func parentOf(pid int) parent {
	p := parent{pid: pid, children: childrenOf(pid)}
	if len(p.children) == 0 {
		return p
	}
	own, grandchildren := terminalOf(pid), maxFamily
	for _, child := range p.children {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/status")
		if err != nil {
			continue
		}
		_, state := parseStatus(status)
		p.runs = p.runs || state == 'R'
		p.ends = p.ends || state == 'Z' || endsBySignal(status)
		if terminal := terminalOf(child); terminal != 0 && terminal != own {
			p.terminal = true
			p.runs = p.runs || starts(child, &grandchildren)
			if _, age := activityOf(child); age > 0 && p.newest.Before(time.Now().Add(-age)) {
				p.newest = time.Now().Add(-age)
			}
		}
	}
	return p
}

// startLimit is the age at which a child that runs is a task of its parent, such as a loop in a
// shell's background, rather than a program that starts.
const startLimit = time.Second

// startAccuracy is the accuracy of the start of a process (proc(5)).
const startAccuracy = 10 * time.Millisecond

// starts reports whether a process starts a program: a young child of it runs, and has not executed
// the program. Until then the child may ignore Ctrl+C, and may not be what the terminal sends it to.
// It looks at as many children as are left, the newest first, and takes them from left.
func starts(pid int, left *int) bool {
	for _, child := range slices.Backward(allChildrenOf(pid)) {
		if *left == 0 {
			return false
		}
		*left--
		if state, age := activityOf(child); (state == "R" || state == "D") && age < startLimit && programOf(child) == programOf(pid) {
			return true
		}
	}
	return false
}

// opened reports whether a terminal has started a program since a time: it has opened a tab.
func (p parent) opened(since time.Time) bool {
	return p.newest.After(since.Add(-startAccuracy))
}

// lost reports whether a child has ended since before.
func (p parent) lost(before parent) bool {
	return slices.ContainsFunc(before.children, func(child int) bool { return !slices.Contains(p.children, child) })
}

// endsBySignal reports whether a process has a pending signal that ends it, by its
// /proc/PID/status.
func endsBySignal(status []byte) bool {
	var pending, blocked uint64
	for name, value := range statusLines(status) {
		switch name {
		case "SigPnd", "ShdPnd":
			pending |= mask(value)
		case "SigBlk":
			blocked = mask(value)
		}
	}
	return pending&^blocked&endSignals != 0
}

// mask parses a set of signals (proc(5)).
func mask(hex []byte) uint64 {
	set, _ := strconv.ParseUint(string(hex), 16, 64)
	return set
}

// terminalOf returns the controlling terminal of a process, or 0.
func terminalOf(pid int) int {
	fields := statOf(pid)
	if len(fields) < 5 {
		return 0
	}
	terminal, _ := strconv.Atoi(string(fields[4]))
	return terminal
}

// activityOf returns the state of a process and the time since its start, or "" if it has ended.
func activityOf(pid int) (state string, age time.Duration) {
	fields := statOf(pid)
	var now unix.Timespec
	if len(fields) < 20 || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return "", 0
	}
	start, _ := strconv.ParseInt(string(fields[19]), 10, 64)
	return string(fields[0]), time.Duration(now.Nano()) - time.Duration(start)*startAccuracy
}

// statOf returns the fields of /proc/PID/stat after the process's name, which may contain anything
// (proc(5)).
func statOf(pid int) [][]byte {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}
