package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// Goals of the idle server.
const (
	idleShare   = 0.003 // of one core
	idleMemory  = 40 << 20
	freshMemory = 41_000_000
)

// watchIdle measures deskhand while its desktop is on and no client is connected.
func (b *bench) watchIdle(ctx context.Context) error {
	if b.idle == 0 {
		return nil
	}
	b.Tell("idle for %v", b.idle)
	d := b.beds[0]
	d.http.CloseIdleConnections()
	share, err := benchkit.Share(ctx, b.idle, func() (time.Duration, error) { return benchkit.ProcessorTime(d.server.PID) })
	if err != nil {
		return err
	}
	anonymous, err := anonymousMemory(d.server.PID)
	if err != nil {
		return err
	}
	b.line(idleServer, fmt.Sprintf("processor, over %v", b.idle), fmt.Sprintf("%.2f %% of a core", share*100), "",
		fmt.Sprintf("below %g %%", idleShare*100), share < idleShare)
	b.line(idleServer, "anonymous resident memory", fmt.Sprintf("%.1f MiB", float64(anonymous)/(1<<20)), "",
		fmt.Sprintf("below %d MiB", idleMemory>>20), anonymous < idleMemory)
	return nil
}

// watchFresh measures the servers' resident memory a while after their start,
// before the rows. It includes the pages of their program files.
func (b *bench) watchFresh(ctx context.Context) error {
	if b.idle == 0 {
		return nil
	}
	b.Tell("idle for %v after the start", b.idle)
	for _, d := range b.beds {
		d.http.CloseIdleConnections()
	}
	if err := benchkit.Pause(ctx, b.idle); err != nil {
		return err
	}
	var sizes [2]int64
	for k, d := range b.beds {
		var err error
		if sizes[k], err = memoryFigure(d.server.PID, "status", "VmRSS:"); err != nil {
			return err
		}
	}
	megabytes := func(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
	b.line(idleServer, fmt.Sprintf("resident memory %v after the start, with the pages of the program file", b.idle),
		megabytes(sizes[0]), megabytes(sizes[1]), fmt.Sprintf("at most %d MB", freshMemory/1_000_000), sizes[0] <= freshMemory)
	return nil
}

// anonymousMemory returns a process's resident anonymous memory, in bytes
// (proc_pid_smaps(5)).
func anonymousMemory(pid int) (int64, error) { return memoryFigure(pid, "smaps_rollup", "Anonymous:") }

// peakMemory returns a process's peak of resident memory since forgetPeak, in
// bytes (proc_pid_status(5)).
func peakMemory(pid int) (int64, error) { return memoryFigure(pid, "status", "VmHWM:") }

// forgetPeak resets a process's peak of resident memory to its present size and
// returns it (proc_pid_clear_refs(5)).
func forgetPeak(pid int) (int64, error) {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return 0, err
	}
	return peakMemory(pid)
}

// memoryFigure returns the value of a line of a file in /proc/PID, converted from
// KiB to bytes.
func memoryFigure(pid int, file, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	var kib int64
	_, rest, _ := strings.Cut(string(text), "\n"+name)
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, fmt.Errorf("%s of process %d: %s %w", file, pid, name, err)
	}
	return kib << 10, nil
}
