package supervise

import "slices"

// Family lists the processes that run of a child and of what it started, in
// ascending order, by the same marks by which [Child.Stop] finds them. It is
// empty when none is left, or when they cannot be told.
func (c *Child) Family() []int {
	r := &roundup{tags: []tag{c.tag()}, leaders: make(map[int]*Child)}
	if c.hold() {
		defer c.release()
		r.leaders[c.pid] = c
	}
	all, err := processes()
	if err != nil {
		return nil
	}
	var pids []int
	for pid := range r.members(all) {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}
