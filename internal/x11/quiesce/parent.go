package quiesce

import (
	"bytes"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// parent is a process with children, such as a terminal.
type parent struct {
	pid      int
	children []int
	runs     bool // a child does, such as the shell of a terminal that handles a key, or the shell starts a program
	ends     bool // a child is a zombie, or has a pending signal that ends it
	terminal bool // a child has a terminal that is not its parent's
}

// endSignals are signals that end most programs.
const endSignals = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGKILL-1) | 1<<(unix.SIGTERM-1)

// parentOf looks at the children of a process.
func parentOf(pid int) parent {
	p := parent{pid: pid, children: childrenOf(pid)}
	if len(p.children) == 0 {
		return p
	}
	own := terminalOf(pid)
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
			p.runs = p.runs || starts(child)
		}
	}
	return p
}

// starts reports whether a process starts a program: a child of it runs, and has not executed the
// program. Until then the child may ignore Ctrl+C, and may not be what the terminal sends it to.
func starts(pid int) bool {
	for _, child := range childrenOf(pid) {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/status")
		if err != nil {
			continue
		}
		if _, state := parseStatus(status); (state == 'R' || state == 'D') && programOf(child) == programOf(pid) {
			return true
		}
	}
	return false
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

// terminalOf returns the controlling terminal of a process (proc(5)), or 0.
func terminalOf(pid int) int {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name before that may contain anything
	if len(fields) < 5 {
		return 0
	}
	terminal, _ := strconv.Atoi(string(fields[4]))
	return terminal
}
