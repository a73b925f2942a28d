package supervise

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Limit sets a limit of the child and of processes that it starts later (setrlimit(2)).
// It does nothing if the child has ended.
func (c *Child) Limit(resource int, limit uint64) error {
	if !c.hold() {
		return nil
	}
	defer c.release()
	if err := unix.Prlimit(c.pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil && err != unix.ESRCH {
		return fmt.Errorf("limit %s: %w", c.name, err)
	}
	return nil
}
