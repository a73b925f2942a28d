package supervise

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mostEnviron is how many bytes of a process's environment are read. A program can set the bounds of
// its environment to any part of its memory (PR_SET_MM_MAP in prctl(2)), and its forks inherit them.
// With a bound for all processes together, such a program could hide other processes.
const mostEnviron = 128 << 10

// mostLineage is the longest value of GroupVariable. It has room for more than 100 servers, each of
// which was started by the previous one.
const mostLineage = 8 << 10

// environ returns the child's environment. Its tag is first, because a search reads no more than
// mostEnviron bytes.
func (c *Child) environ() []string {
	env := make([]string, 0, len(c.command.env)+1)
	env = append(env, GroupVariable+"="+c.group.lineage+c.tag().text)
	for _, entry := range c.command.env {
		if !strings.HasPrefix(entry, GroupVariable+"=") {
			env = append(env, entry)
		}
	}
	return env
}

// environBuffers are buffers for environments.
var environBuffers = sync.Pool{New: func() any { return new([mostEnviron]byte) }}

// lineage returns the value of GroupVariable in the first mostEnviron bytes of a process's
// environment, or "" if there is none or the environment cannot be read.
//
// The environment is in the process's memory, which execve(2) replaces. Until the new memory is
// filled, and for a reader that has opened the old one, the environment is empty. certain is
// false if the process may be executing another program. If state is the same later, the process
// is not executing one: a program can make its environment look incomplete forever.
func lineage(pid int) (value string, state environState, certain bool) {
	buf := environBuffers.Get().(*[mostEnviron]byte)
	defer environBuffers.Put(buf)
	size, err := readFile(pid, "environ", buf[:])
	if err != nil {
		return "", state, true
	}
	if v, ok := valueIn(buf[:size]); ok {
		return v, state, true
	}
	n, err := readFile(pid, "stat", buf[:])
	if err != nil {
		return "", state, true
	}
	state, certain = stateOfEnviron(buf[:n], size)
	return "", state, certain
}

// readFile reads the beginning of a file of /proc/PID into buf, and returns the number of bytes.
func readFile(pid int, name string, buf []byte) (n int, err error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if err != nil || m == 0 {
			return n, err
		}
		n += m
	}
	return n, nil
}

// valueIn finds GroupVariable in an environment whose end may be missing.
func valueIn(env []byte) (string, bool) {
	const name = GroupVariable + "="
	if !bytes.HasPrefix(env, []byte(name)) {
		i := bytes.Index(env, []byte("\x00"+name))
		if i < 0 {
			return "", false
		}
		env = env[i+1:]
	}
	env = env[len(name):]
	value, _, whole := bytes.Cut(env[:min(len(env), mostLineage)], []byte{0})
	return string(value), whole
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
