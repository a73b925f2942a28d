package quiesce

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// A browser has processes for its pages. The best sign that they have handled a key is that
// all are almost idle for longer than a picture takes.
const (
	familyLook = 4 * time.Millisecond
	// familyQuiet is how many consecutive checks must find all threads asleep: for longer than
	// a picture at 60 Hz, for which an application may wait.
	familyQuiet = 5
	// clickQuiet is the same for a program of Java: Return presses a button of a dialog for
	// 20 ms, for which the program sleeps. A terminal sleeps as long before it closes a tab.
	clickQuiet = 10
	// familySleeps is how often timers may wake all threads together during these checks.
	familySleeps = 4
	maxFamily    = 256
)

// helpers returns a process and its descendants of the same program, at most maxFamily.
func helpers(pid int) []int {
	program := programOf(pid)
	all := []int{pid}
	for i := 0; i < len(all) && len(all) < maxFamily; i++ {
		for _, child := range childrenOf(all[i]) {
			if len(all) < maxFamily && program != "" && programOf(child) == program {
				all = append(all, child)
			}
		}
	}
	return all
}

// childrenOf returns the children of a process, also zombies: the oldest of each thread first, at most
// maxFamily. It returns nil if the kernel does not list them.
func childrenOf(pid int) []int {
	all := allChildrenOf(pid)
	return all[:min(len(all), maxFamily)]
}

// allChildrenOf is like childrenOf without a bound.
func allChildrenOf(pid int) (children []int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, _ := firstNames(dir, maxAwake)
	for _, thread := range threads {
		list, err := os.ReadFile(dir + thread + "/children")
		if err != nil {
			continue
		}
		for field := range bytes.FieldsSeq(list) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// programOf returns the name of a process's program from its command line, which can be
// read where the link to the file cannot.
func programOf(pid int) string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	defer f.Close()
	line := make([]byte, unix.PathMax) // a program can make its command line very long
	n, _ := f.Read(line)
	line = line[:n]
	if i := bytes.IndexAny(line, "\x00 "); i >= 0 { // helpers put spaces between arguments
		line = line[:i]
	}
	if len(line) == 0 {
		return ""
	}
	return filepath.Base(string(line))
}

// waitFamily waits until processes are idle for a number of consecutive checks.
func (d *Display) waitFamily(ctx context.Context, family []int, checks int) error {
	again := time.NewTicker(familyLook)
	defer again.Stop()
	var since uint64 // sleeps when the quiet began
	for quiet := -1; ; {
		total := uint64(0)
		counts, err := sleeps(family...)
		for _, n := range counts {
			total += n
		}
		switch {
		case counts == nil && err == nil: // a thread is awake
			quiet = -1
		case quiet < 0 || total > since+familySleeps:
			quiet, since = 0, total
		default:
			quiet++
		}
		if quiet >= checks {
			return nil
		}
		select {
		case <-again.C:
		case <-d.Done:
			return request.ErrConnClosed
		case <-ctx.Done():
			return ErrNotDrained
		}
	}
}
