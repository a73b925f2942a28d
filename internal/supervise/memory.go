package supervise

import (
	"math"

	"golang.org/x/sys/unix"
)

// MemoryLimit returns the bytes of memory that this program and its children may use: the
// minimum of the machine's memory and the limits of the visible control groups of version 1 or
// 2. It returns MaxInt64 if none of them is known.
func MemoryLimit() int64 {
	var info unix.Sysinfo_t
	limit := uint64(math.MaxInt64)
	if unix.Sysinfo(&info) == nil && info.Totalram > 0 {
		limit = uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // smaller on some systems
	}
	return leastMemory(limit, controlGroups("memory"))
}

func leastMemory(limit uint64, groups []string) int64 {
	for _, dir := range groups {
		for _, name := range controllerFiles["memory"] {
			if n, ok := readCount(dir, name); ok && n > 0 {
				limit = min(limit, n)
			}
		}
	}
	return int64(min(limit, math.MaxInt64))
}
