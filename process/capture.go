package process

import (
	"slices"
	"sync"

	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	firstCapture = 2 << 10
	spareSize    = 32 << 10
)

// capture keeps the first bytes of a program's output.
type capture struct {
	limit int

	mu        sync.Mutex
	data      []byte // with free capacity
	spare     []byte // receives output that is not kept
	truncated bool
	finished  bool
}

var _ supervise.Filler = (*capture)(nil)

// Space implements supervise.Filler.
func (c *capture) Space() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished || len(c.data) >= c.limit {
		if c.spare == nil {
			c.spare = make([]byte, spareSize)
		}
		return c.spare
	}
	if cap(c.data)-len(c.data) < firstCapture/2 {
		// One byte beyond the limit shows whether there is more output.
		more := min(max(firstCapture, 2*cap(c.data)), c.limit+1)
		c.data = slices.Grow(c.data, max(1, more-len(c.data)))
	}
	return c.data[len(c.data):cap(c.data)]
}

// Filled implements supervise.Filler.
func (c *capture) Filled(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		return
	}
	kept := min(n, c.limit-len(c.data))
	c.data = c.data[:len(c.data)+kept]
	c.truncated = c.truncated || kept < n
}

// Write implements supervise.Filler.
func (c *capture) Write(b []byte) (int, error) { return fill(c, b) }

func fill(f supervise.Filler, b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := copy(f.Space(), rest)
		f.Filled(n)
		rest = rest[n:]
	}
	return len(b), nil
}

// finish ends the capture. Later output is discarded.
func (c *capture) finish() (data []byte, truncated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
	return slices.Clip(c.data), c.truncated
}
