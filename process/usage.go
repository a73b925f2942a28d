package process

import (
	"fmt"
	"time"
)

// Usage is the resource usage of a process and of the running processes that it started.
type Usage struct {
	Processes int           // that run
	CPU       time.Duration // including ended processes that were waited for
	Memory    int64         // resident, in bytes; shared pages count for each process
}

// Usage measures the process and the processes that it started. It also works after the
// process's end. It reads the process table of the machine, and fails if /proc cannot be
// read.
func (p *Process) Usage() (Usage, error) {
	u, err := p.child.Usage()
	if err != nil {
		return Usage{}, fmt.Errorf("usage of %s: %w", p.id, err)
	}
	return Usage(u), nil
}
