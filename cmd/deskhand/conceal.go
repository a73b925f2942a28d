package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// conceal protects the tokens and passwords in this program's memory from other
// processes of the same user, such as the server's children. They cannot open its
// /proc/PID/mem and /proc/PID/environ or trace it, and it leaves no core dump.
// Children can be traced again after their execve(2).
//
// Root can still read the memory, but finds no secrets in /proc/PID/environ.
func conceal() error {
	coverEnvironment()
	keepDescriptors()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep other processes out of this program's memory: %w", err)
	}
	return nil
}

// keepDescriptors keeps children from inheriting the file descriptors that this
// program inherited. They may belong to a file that the children's user cannot open,
// such as the file of --token-file /dev/fd/3.
func keepDescriptors() {
	const first = 3
	if unix.CloseRange(first, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	open, _ := os.ReadDir("/proc/self/fd") // before Linux 5.11, or the call is filtered
	for _, d := range open {
		if fd, err := strconv.Atoi(d.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
}

// coverEnvironment overwrites confidential values in the memory to which the
// kernel wrote the environment. Go has made a copy of it. The values stay if that
// memory cannot be written.
func coverEnvironment() {
	stat, err1 := os.ReadFile("/proc/self/stat")
	env, err2 := os.ReadFile("/proc/self/environ")
	if err1 != nil || err2 != nil {
		return
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from field 3 of proc_pid_stat(5)
	if len(fields) <= 50-3 {
		return
	}
	start, err := strconv.ParseInt(fields[50-3], 10, 64)
	if err != nil {
		return
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer mem.Close()
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		name, value, _ := strings.Cut(string(entry), "=")
		if confidential(name, value) || isSecretSource(os.Args, name) {
			_, _ = mem.WriteAt(bytes.Repeat([]byte("*"), len(value)), start+int64(len(name)+1))
		}
		start += int64(len(entry) + 1)
	}
}

// confidential reports whether the value of an environment variable may be a
// secret: by its name, or as a URL that holds a password.
func confidential(name, value string) bool {
	if name = strings.ToUpper(name); strings.HasSuffix(name, "_FILE") || strings.HasSuffix(name, "_PATH") {
		return false
	}
	_, rest, isURL := strings.Cut(value, "://")
	return isURL && strings.Contains(rest, "@") || slices.ContainsFunc(
		[]string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "KEY", "AUTH", "HEADERS", "DATABASE", "DSN"},
		func(word string) bool { return strings.Contains(name, word) })
}
