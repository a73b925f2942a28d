package supervise

import (
	"os"
	"slices"
	"time"
)

// Family lists the processes that run of a child and of what it started, in
// ascending order, by the same marks by which [Child.Stop] finds them. It is
// empty when none is left, or when they cannot be told.
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
		if len(r.execs) == 0 || tries == lookTries {
			return members, nil
		}
		<-time.After(execWait)
	}
}

// Usage is what a family takes up.
type Usage struct {
	Processes int           // that run
	CPU       time.Duration // theirs, and that of those which have ended and were waited for
	Memory    int64         // resident, in bytes; pages that several share count for each
}

// Usage measures the child and what it started.
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
