package supervise

import (
	"os"
	"slices"
	"time"
)

// Family returns the ids of the running processes among the child and the processes
// that it started, in ascending order. It finds them like [Child.Stop]. It returns nil
// if /proc cannot be read.
func (c *Child) Family() []int {
	members, err := c.family()
	if err != nil {
		return nil
	}
	var pids []int
	for _, p := range members {
		pids = append(pids, p.pid)
	}
	slices.Sort(pids)
	return pids
}

func (c *Child) family() ([]process, error) {
	r := &roundup{tags: []tag{c.tag()}, leaders: make(map[int]*Child)}
	if c.hold() {
		defer c.release()
		r.leaders[c.pid] = c
	}
	for tries := 1; ; tries++ {
		all, _, err := processes()
		if err != nil {
			return nil, err
		}
		var members []process
		for pid := range r.members(all) {
			members = append(members, all[pid])
		}
		if len(r.execs) == 0 || tries == searchTries {
			return members, nil
		}
		<-time.After(execWait)
	}
}

// Usage is the resource usage of a child and of the running processes that it started.
type Usage struct {
	Processes int           // that run
	CPU       time.Duration // including ended processes that were waited for
	Memory    int64         // resident, in bytes; shared pages count for each process
}

// Usage measures the child and the processes that it started, also after the child's end.
// It fails if /proc cannot be read.
func (c *Child) Usage() (Usage, error) {
	members, err := c.family()
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Processes: len(members)}
	for _, p := range members {
		u.CPU += time.Duration(p.cpu) * (time.Second / 100)
		u.Memory += p.pages * int64(os.Getpagesize())
	}
	c.mu.Lock()
	u.CPU += c.cpu
	c.mu.Unlock()
	return u, nil
}
