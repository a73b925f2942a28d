package supervise

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// AvailableMemory returns the bytes of memory that new programs can get: the minimum of what
// the kernel estimates for the machine and what is left of the limits of the visible control
// groups of version 2. Files that the kernel can drop from memory count as available. It
// returns MaxInt64 if none of them is known.
func AvailableMemory() int64 {
	available := uint64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if kB, ok := lineValue(string(text), "MemAvailable:"); ok {
			available = kB << 10
		}
	}
	return leftMemory(available, controlGroups("memory"))
}

func leftMemory(available uint64, groups []string) int64 {
	for _, dir := range groups {
		limit, ok1 := readCount(dir, "memory.max")
		used, ok2 := readCount(dir, "memory.current")
		if !ok1 || !ok2 {
			continue
		}
		if text, err := os.ReadFile(filepath.Join(dir, "memory.stat")); err == nil {
			if files, ok := lineValue(string(text), "inactive_file"); ok {
				used -= min(used, files)
			}
		}
		available = min(available, limit-min(limit, used))
	}
	return int64(min(available, math.MaxInt64))
}

// lineValue returns the number after a name, at the beginning of a line of text.
func lineValue(text, name string) (uint64, bool) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.ParseUint(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
