package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// idle is what deskhand's process used while nobody was connected.
type idle struct {
	time      time.Duration
	processor time.Duration // user and system
	anonymous int64         // bytes
}

// Goals of the idle server.
const (
	idleShare  = 0.003 // of one core
	idleMemory = 40 << 20
)

// clockTick is the unit of the times in /proc: USER_HZ, 100 on all of Linux.
const clockTick = 10 * time.Millisecond

// watchIdle watches deskhand for a while. Its desktop is on.
func (b *bench) watchIdle(ctx context.Context) error {
	b.tell("idle for %v", b.options.idle)
	d := b.beds[0]
	d.http.CloseIdleConnections()
	before, err := processorTime(d.server.PID)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := pause(ctx, b.options.idle); err != nil {
		return err
	}
	after, err := processorTime(d.server.PID)
	if err != nil {
		return err
	}
	b.idle = &idle{time: time.Since(begin), processor: after - before}
	b.idle.anonymous, err = anonymousMemory(d.server.PID)
	return err
}

// processorTime returns the user and system time of all threads of a process
// (proc_pid_stat(5), fields 14 and 15).
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold spaces.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const user, system = 14 - 3, 15 - 3
	var ticks int64
	for _, i := range []int{user, system} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// anonymousMemory returns a process's resident anonymous memory, in bytes
// (proc_pid_smaps(5)).
func anonymousMemory(pid int) (int64, error) { return memoryFigure(pid, "smaps_rollup", "Anonymous:") }

// peakMemory returns the most that a process has had of resident memory since
// forgetPeak, in bytes (proc_pid_status(5)).
func peakMemory(pid int) (int64, error) { return memoryFigure(pid, "status", "VmHWM:") }

// forgetPeak makes a process's peak of resident memory what it has now, and
// returns that (proc_pid_clear_refs(5)).
func forgetPeak(pid int) (int64, error) {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return 0, err
	}
	return peakMemory(pid)
}

// memoryFigure returns a line of a file in /proc, which is in KiB, in bytes.
func memoryFigure(pid int, file, name string) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s of process %d has no line %s", file, pid, name)
}
