package rest

import (
	"net"
	"sync"

	"github.com/valyala/fasthttp"
)

// conns are a server's open connections.
type conns struct {
	limits *connLimits // nil: none

	mu   sync.Mutex
	open map[net.Conn]struct{}
	none chan struct{} // closed when open gets empty; nil: no call waits
}

func (c *conns) track(conn net.Conn, state fasthttp.ConnState) {
	if state == fasthttp.StateClosed {
		c.limits.release(conn)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case fasthttp.StateNew:
		if c.open == nil {
			c.open = map[net.Conn]struct{}{}
		}
		c.open[conn] = struct{}{}
	case fasthttp.StateClosed, fasthttp.StateHijacked:
		delete(c.open, conn)
		if len(c.open) == 0 && c.none != nil {
			close(c.none)
			c.none = nil
		}
	case fasthttp.StateActive, fasthttp.StateIdle:
	}
}

// closeAll closes every connection, also while its handler runs.
// The channel none is closed after the last handler has returned.
func (c *conns) closeAll() (none <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	over := make(chan struct{})
	if len(c.open) == 0 {
		close(over)
		return over
	}
	for conn := range c.open {
		_ = conn.Close()
	}
	c.none = over
	return over
}
