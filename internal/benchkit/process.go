package benchkit

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc: USER_HZ, 100 on all of Linux.
const clockTick = 10 * time.Millisecond

// ProcessorTime returns the user and system time of all threads of a process
// (proc_pid_stat(5), fields 14 and 15).
func ProcessorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var used time.Duration
	for _, field := range fields[14-3 : 16-3] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("stat of process %d: %w", pid, err)
		}
		used += time.Duration(n) * clockTick
	}
	return used, nil
}

// Share returns the processor time that grows in a time, as a share of one core.
func Share(ctx context.Context, length time.Duration, used func() (time.Duration, error)) (float64, error) {
	begin := time.Now()
	before, err := used()
	if err != nil {
		return 0, err
	}
	if err := Pause(ctx, length); err != nil {
		return 0, err
	}
	after, err := used()
	return (after - before).Seconds() / time.Since(begin).Seconds(), err
}
