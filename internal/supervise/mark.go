package supervise

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// smallestMark is the smallest mark. It is larger than any limit on locks that a
// user would choose.
const smallestMark = 1 << 40

// mark is a random value of RLIMIT_LOCKS, a limit without effect since Linux 2.4.25.
// All descendants of a process with the mark inherit it, through setsid(2), a second
// fork and execve(2), whatever their environment is. /proc/PID/limits shows it to all
// users. Zero is no mark.
//
// A process can lower its limit. Children of another user therefore have a
// supplementary group as well, which a process without CAP_SETGID cannot leave.
type mark uint64

// group returns the supplementary group that belongs to the mark.
func (m mark) group() uint32 { return 1<<30 + uint32(m%(1<<30)) }

// credential returns c with the group of the mark added. It returns c itself if
// there is no mark or this user namespace does not have the group.
func (m mark) credential(c *syscall.Credential) *syscall.Credential {
	if c == nil || m == 0 || !mapped(groupMap(), m.group()) {
		return c
	}
	marked := *c
	marked.Groups = append(slices.Clip(c.Groups), m.group())
	return &marked
}

// matches reports whether the mark is a process's own, or its group is one of the
// process's supplementary groups.
func (m mark) matches(own mark, groups []string) bool {
	return own == m || slices.Contains(groups, strconv.FormatUint(uint64(m.group()), 10))
}

// groupMap is the text of /proc/self/gid_map (user_namespaces(7)).
var groupMap = sync.OnceValue(func() string { return procText(os.Getpid(), "gid_map") })

// mapped reports whether a user namespace with a map of groups has the group.
func mapped(gidMap string, group uint32) bool {
	for line := range strings.Lines(gidMap) {
		var first, outside, count uint64
		if _, err := fmt.Sscan(line, &first, &outside, &count); err == nil && uint64(group) >= first && uint64(group)-first < count {
			return true
		}
	}
	return false
}

// setMark gives this program a mark, which later children inherit. It returns zero if
// the limit is already too low.
func setMark() (mark, error) {
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of locks: %w", err)
	}
	// Only root may raise the limit, and a child of another marked program has that
	// program's mark.
	top := min(limit.Max, 1<<62)
	if top <= smallestMark {
		return 0, nil
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	m := smallestMark + binary.LittleEndian.Uint64(b[:])%(top-smallestMark)
	if err := unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: m, Max: m}, nil); err != nil {
		return 0, fmt.Errorf("set the limit of locks: %w", err)
	}
	return mark(m), nil
}

// markOf returns the mark of a process, zero if it has none or cannot be read.
func markOf(pid int) mark {
	_, rest, _ := strings.Cut(procText(pid, "limits"), "Max file locks")
	line, _, _ := strings.Cut(rest, "\n")
	fields := strings.Fields(line) // soft, hard, "locks"
	if len(fields) < 2 {
		return 0
	}
	m, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil || m < smallestMark { // ParseUint fails for "unlimited"
		return 0
	}
	return mark(m)
}
