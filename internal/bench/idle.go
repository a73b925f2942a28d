package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// idle is what deskhand's process used while nobody was connected.
type idle struct {
	time      time.Duration
	processor time.Duration // user and system
	anonymous int64         // bytes
}

// Goals of the idle server.
const (
	idleShare   = 0.003 // of one core
	idleMemory  = 40 << 20
	freshMemory = 41_000_000
)

// watchIdle watches deskhand for a while. Its desktop is on.
func (b *bench) watchIdle(ctx context.Context) error {
	b.tell("idle for %v", b.options.idle)
	d := b.beds[0]
	d.http.CloseIdleConnections()
	before, err := benchkit.ProcessorTime(d.server.PID)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := pause(ctx, b.options.idle); err != nil {
		return err
	}
	after, err := benchkit.ProcessorTime(d.server.PID)
	if err != nil {
		return err
	}
	b.idle = &idle{time: time.Since(begin), processor: after - before}
	b.idle.anonymous, err = anonymousMemory(d.server.PID)
	return err
}

// watchFresh waits for a while after the desktops were started and measures the
// servers' resident memory, which has the pages of their program files in it.
func (b *bench) watchFresh(ctx context.Context) error {
	b.tell("idle for %v after the start", b.options.idle)
	for _, d := range b.beds {
		d.http.CloseIdleConnections()
	}
	if err := pause(ctx, b.options.idle); err != nil {
		return err
	}
	for _, d := range b.beds {
		n, err := memoryFigure(d.server.PID, "status", "VmRSS:")
		if err != nil {
			return err
		}
		d.fresh = n
	}
	return nil
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
