package quiesce

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Browsers show their pages in processes of their own, which do not tell whether they
// have dealt with a key. The best sign is that all of them do almost nothing for
// longer than a picture takes.
const (
	familyLook = 4 * time.Millisecond
	// familyQuiet is how many looks in a row must find nothing to do: more than
	// a picture at 60 Hz, for which an application may wait.
	familyQuiet = 5
	// familySleeps is how often all threads together may have woken in between:
	// timers do wake them.
	familySleeps = 4
	maxFamily    = 256
)

// helpers is a process and those of the same program below it.
func helpers(pid int) []int {
	program := programOf(pid)
	all := []int{pid}
	for i := 0; i < len(all) && len(all) < maxFamily; i++ {
		for _, child := range childrenOf(all[i]) {
			if program != "" && programOf(child) == program {
				all = append(all, child)
			}
		}
	}
	return all
}

// childrenOf is the processes that a process started and that have not ended, or
// of whose end it has not heard. It is none where the kernel does not tell.
func childrenOf(pid int) (children []int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil // it has ended
	}
	for _, thread := range threads {
		list, err := os.ReadFile(dir + thread.Name() + "/children")
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

// endSignals are those that end most programs: SIGHUP, SIGINT, SIGKILL, SIGTERM.
const endSignals = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGKILL-1) | 1<<(unix.SIGTERM-1)

// childEnds says whether something that a process started was told to end and
// has not yet, or has and the process does not know.
func childEnds(pid int) bool {
	return slices.ContainsFunc(childrenOf(pid), func(child int) bool {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/status")
		if err != nil {
			return false
		}
		var pending, blocked uint64
		for name, value := range statusLines(status) {
			switch name {
			case "State":
				if len(value) > 0 && value[0] == 'Z' {
					return true
				}
			case "SigPnd", "ShdPnd":
				pending |= mask(value)
			case "SigBlk":
				blocked = mask(value)
			}
		}
		return pending&^blocked&endSignals != 0
	})
}

// mask reads a set of signals (proc(5)).
func mask(hex []byte) uint64 {
	set, _ := strconv.ParseUint(string(hex), 16, 64)
	return set
}

// programOf is the name of the file that a process runs, as its command line
// says: that can be read where the link to the file cannot.
func programOf(pid int) string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	defer f.Close()
	line := make([]byte, unix.PathMax) // a program can make its command line as long as its memory
	n, _ := f.Read(line)
	line = line[:n]
	if i := bytes.IndexAny(line, "\x00 "); i >= 0 { // helpers rewrite theirs, with spaces
		line = line[:i]
	}
	if len(line) == 0 {
		return ""
	}
	return filepath.Base(string(line))
}

// waitFamily waits until processes have nothing to do for a while.
func (d *Display) waitFamily(ctx context.Context, family []int) error {
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
		if quiet >= familyQuiet {
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
