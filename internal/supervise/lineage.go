package supervise

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
)

// mostEnviron is more than execve(2) accepts. A program can set the bounds of its
// environment to any part of its memory (PR_SET_MM_MAP in prctl(2)).
const mostEnviron = 8 << 20

// lineage returns the value of GroupVariable in a process's environment, or "" if it has
// none or the environment cannot be read.
//
// The environment is in the process's memory, which execve(2) replaces. Until the new memory is
// filled, and for a reader that has opened the old one, the environment is empty. certain is
// false if the process may be executing another program. If state is the same later, the process
// is not executing one: a program can make its environment look incomplete forever.
func lineage(pid int) (value string, state environState, certain bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	env, err := readUpTo(dir+"/environ", mostEnviron)
	if err != nil {
		return "", state, true
	}
	if v, ok := valueIn(env); ok {
		return v, state, true
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return "", state, true
	}
	state, certain = stateOfEnviron(stat, len(env))
	return "", state, certain
}

// readUpTo reads at most n bytes of a file.
func readUpTo(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// valueIn finds GroupVariable in an environment whose end may be missing.
func valueIn(env []byte) (string, bool) {
	for {
		entry, rest, whole := bytes.Cut(env, []byte{0})
		if !whole {
			return "", false
		}
		if v, ok := bytes.CutPrefix(entry, []byte(GroupVariable+"=")); ok {
			return string(v), true
		}
		env = rest
	}
}

// environState is where a process's program and environment are in its memory, and
// how many bytes of the environment could be read.
type environState struct {
	code, start, end uint64
	size             int
}

// stateOfEnviron reads /proc/PID/stat (proc_pid_stat(5)). certain is true if n bytes
// are the whole environment, and for a process that can have none.
func stateOfEnviron(stat []byte, n int) (s environState, certain bool) {
	const (
		kernelThread = 0x00200000 // PF_KTHREAD, linux/sched.h
		hidden       = 1          // instead of an address that this user may not see
	)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 49 {
		return s, true
	}
	state, rest := fields[0], fields[1:] // field 3, and the fields from 4 on
	flags, err1 := strconv.ParseUint(rest[9-4], 10, 64)
	code, err2 := strconv.ParseUint(rest[26-4], 10, 64)
	start, err3 := strconv.ParseUint(rest[50-4], 10, 64)
	end, err4 := strconv.ParseUint(rest[51-4], 10, 64)
	if errors.Join(err1, err2, err3, err4) != nil || strings.Contains("ZXx", state) || flags&kernelThread != 0 || code == hidden {
		return s, true
	}
	// execve sets code last.
	return environState{code, start, end, n}, code != 0 && (uint64(n) == end-start || n == mostEnviron)
}
