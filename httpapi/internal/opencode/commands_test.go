package opencode

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// What was cut off the texts of commands does not stay in memory.
func TestLongCommands(t *testing.T) { //nolint:paralleltest // it measures the heap
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc) //nolint:gosec // it fits
	}
	const entries = 16
	long := strings.Repeat("x", 1<<20)
	var kept []command
	before := heap()
	for range entries {
		kept = append(kept, commandsIn(fmt.Appendf(nil, `{"params":{"update":{"sessionUpdate":"available_commands_update","availableCommands":[
			{"name":"%[1]s","description":"%[1]s","input":{"hint":"%[1]s"}}]}}}`, long))...)
	}
	if got := heap() - before; got > entries<<16 || len(kept) != entries {
		t.Errorf("%d commands keep %d bytes", len(kept), got)
	}
	runtime.KeepAlive(kept)
}
