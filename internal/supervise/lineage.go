package supervise

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"
)

// How often, and how far apart, the environment is read of a process that is
// executing another program just then.
const (
	execTries = 100
	execWait  = time.Millisecond
)

// lineage returns the value of GroupVariable in a process's environment, empty
// when it has none or the environment cannot be read.
//
// The environment is in the process's memory, of which execve(2) makes a new
// one: until that is filled, and for a reader who has opened the old one, there
// is none. So an environment without the variable counts only when its size is
// the one that the process has.
func lineage(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	for range execTries {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil {
			return ""
		}
		if v, ok := valueIn(env); ok {
			return v
		}
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil || environSettled(stat, len(env)) {
			return ""
		}
		<-time.After(execWait)
	}
	return ""
}

// valueIn finds GroupVariable in an environment of which the end may be missing.
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

// environSettled tells from /proc/PID/stat (proc_pid_stat(5)) whether n bytes
// are the whole environment of a process that has one, or can have none.
func environSettled(stat []byte, n int) bool {
	const (
		kernelThread = 0x00200000 // PF_KTHREAD, linux/sched.h
		hidden       = 1          // instead of an address that we may not see
	)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 49 {
		return true
	}
	state, rest := fields[0], fields[1:] // field 3, and those from the 4th on
	flags, err1 := strconv.ParseUint(rest[9-4], 10, 64)
	code, err2 := strconv.ParseUint(rest[26-4], 10, 64)
	start, err3 := strconv.ParseUint(rest[50-4], 10, 64)
	end, err4 := strconv.ParseUint(rest[51-4], 10, 64)
	switch {
	case errors.Join(err1, err2, err3, err4) != nil, strings.Contains("ZXx", state), flags&kernelThread != 0, code == hidden:
		return true
	case code == 0:
		return false // execve sets it last
	}
	return uint64(n) == end-start
}
