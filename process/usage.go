package process

import (
	"fmt"
	"time"
)

// Usage is what a process and all that it started and that still runs take up.
type Usage struct {
	Processes int           // that run
	CPU       time.Duration // of all of them, and of those that have ended and were waited for
	Memory    int64         // resident, in bytes; pages that several share count for each
}

// Usage measures the process and what it started, which costs a look at all
// processes of the machine.
func (p *Process) Usage() (Usage, error) {
	u, err := p.child.Usage()
	if err != nil {
		return Usage{}, fmt.Errorf("usage of %s: %w", p.id, err)
	}
	return Usage{Processes: u.Processes, CPU: u.CPU, Memory: u.Memory}, nil
}
