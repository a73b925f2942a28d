package supervise

import (
	"errors"
	"os"
	"strconv"
)

// Ending reports whether the process has ended or is about to. Its files may already be
// closed. Done follows.
func (c *Child) Ending() bool {
	if !c.hold() {
		return true
	}
	defer c.release()
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(c.pid) + "/task")
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		// The flags in /proc/TID/stat belong to that thread only.
		if p, err := readProcess(tid); err == nil && !p.exiting || err != nil && !errors.Is(err, errGone) {
			return false
		}
	}
	return true
}
