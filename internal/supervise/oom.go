package supervise

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

const (
	// oomStep is added to this program's score for children. The kernel treats them as
	// if they used half of the memory in addition.
	oomStep = 500
	oomMost = 1000 // proc_pid_oom_score_adj(5)
)

// childOOMScore is the oom_score_adj of children.
var childOOMScore = sync.OnceValue(func() []byte {
	own, _ := strconv.Atoi(strings.TrimSpace(procText(os.Getpid(), oomFile)))
	return []byte(strconv.Itoa(min(own+oomStep, oomMost)))
})

const oomFile = "oom_score_adj"

// raiseOOMScore makes the kernel end a child, and the processes that it has started, before
// this program when memory runs out. If this program may not raise the score, it stays.
func raiseOOMScore(pid int) {
	for _, pid := range withChildren(pid) {
		_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), oomFile), childOOMScore(), 0)
	}
}
