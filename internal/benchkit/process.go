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
	_, own, _, err := stat(pid)
	return own, err
}

// TreeProcessorTime returns the user and system time of a process and all of its
// descendants, including children that have ended and were waited for.
func TreeProcessorTime(pid int) (time.Duration, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	parents, times := map[int]int{}, map[int]time.Duration{}
	for _, e := range entries {
		one, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, own, waited, err := stat(one); err == nil { // else it has ended
			parents[one], times[one] = parent, own+waited
		}
	}
	if _, ok := parents[pid]; !ok {
		return 0, fmt.Errorf("there is no process %d", pid)
	}
	var total time.Duration
	for one, used := range times {
		for at := one; at != 0; at = parents[at] {
			if at == pid {
				total += used
				break
			}
		}
	}
	return total, nil
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

// stat reads a process's parent, its own time and the time of its children that
// were waited for (proc_pid_stat(5), fields 4 and 14 to 17).
func stat(pid int) (parent int, own, waited time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0, err
	}
	// The name, in brackets, may hold spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var n [5]int64
	for i, field := range []int{4, 14, 15, 16, 17} {
		if n[i], err = strconv.ParseInt(fields[field-3], 10, 64); err != nil {
			return 0, 0, 0, fmt.Errorf("stat of process %d: %w", pid, err)
		}
	}
	return int(n[0]), time.Duration(n[1]+n[2]) * clockTick, time.Duration(n[3]+n[4]) * clockTick, nil
}
