package supervise

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

const (
	// oomStep is how much more a child is worth to the kernel than this program when
	// memory runs out: as if the child used half of the memory more.
	oomStep = 500
	oomMost = 1000 // proc_pid_oom_score_adj(5)
)

// childOOMScore is oom_score_adj of children: above that of this program.
var childOOMScore = sync.OnceValue(func() []byte {
	own, _ := strconv.Atoi(strings.TrimSpace(procText(os.Getpid(), oomFile)))
	return []byte(strconv.Itoa(min(own+oomStep, oomMost)))
})

const oomFile = "oom_score_adj"

// offerToOOM has the kernel end a child, and what it has started, before this program
// when memory runs out. Where that is not allowed, the child keeps its score.
func offerToOOM(pid int) {
	for _, pid := range withChildren(pid) {
		_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), oomFile), childOOMScore(), 0)
	}
}
