package acp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// The beginnings of the ids of connections. A connection has the id of its ACP server.
const (
	connectionPrefix = "conn_"
	socketPrefix     = "sock_"
)

const (
	mostStreams = 256  // open streams of a connection
	mostPlaces  = 4096 // sessions of a connection whose streams continue where they ended
	mostID      = 512  // bytes of the id of a session whose stream continues; the host has no longer ids
)

// connection is an agent's process that belongs to one client of the transport: an ACP
// server of the host. Its messages are in the log. It remembers how far its streams were
// sent, for clients that do not say what they have seen.
type connection struct {
	id, agent string
	now       func() time.Time

	mu      sync.Mutex // guards the fields below
	over    bool
	users   int              // open streams and sockets
	used    time.Time        // the last time
	places  map[string]int64 // the event after which a session's stream continues; negative: with new events
	readers map[string]*reader
}

// reader is an open stream of a session or, with the session "", of the connection.
type reader struct {
	session string
	from    int64           // the event after which it begins; negative: with new events
	ctx     context.Context //nolint:containedctx // ends with the stream
	end     context.CancelFunc
}

// newConnection returns a connection whose streams begin after an event.
func newConnection(id, agent string, after int64, now func() time.Time) *connection {
	return &connection{id: id, agent: agent, now: now, used: now(), places: map[string]int64{"": after}, readers: map[string]*reader{}}
}

// resting returns when the connection was last used, and whether that is long ago.
func (c *connection) resting() (used time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used, c.users == 0 && c.now().Sub(c.used) > restingTime
}

func (c *connection) use() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = c.now()
}

// close ends the connection's streams.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, r := range c.readers {
		r.end()
	}
}

// attach opens a stream after the event that the client has seen, or where the last one
// ended if seen is negative. It ends an open stream of the session: a client that lost its
// connection comes back before the server notices the loss.
func (c *connection) attach(session string, seen int64) (*reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.readers[session]
	switch {
	case c.over:
		return nil, noConnection(c.id)
	case old != nil:
		old.end()
	case len(c.readers) >= mostStreams:
		return nil, rest.Unavailable.Problem(fmt.Sprintf(
			"stream error: %d streams of this connection are open already; close streams of sessions that are over", mostStreams))
	}
	if seen >= 0 {
		c.place(session, seen)
	}
	r := &reader{session: session}
	r.ctx, r.end = context.WithCancel(context.Background())
	var known bool
	if r.from, known = c.places[session]; !known {
		r.from = c.places[""] // see note: the session has no events before that
	}
	c.readers[session] = r
	c.users++
	return r, nil
}

// place sets the event after which a stream continues. The caller has c.mu. An agent may send ids
// of any length, which place does not keep.
func (c *connection) place(session string, seq int64) {
	if len(session) > mostID {
		return
	}
	if _, known := c.places[session]; known || len(c.places) < mostPlaces {
		c.places[session] = seq
	}
}

// detach is called at the end of a stream.
func (c *connection) detach(r *reader) {
	r.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readers[r.session] == r {
		delete(c.readers, r.session)
	}
	c.users--
	c.used = c.now()
}

// reached records that a stream was sent up to an event.
func (c *connection) reached(r *reader, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readers[r.session] == r {
		c.place(r.session, seq)
	}
}

// note records that the connection's own stream has passed an event of a session. The
// stream of the session begins with the first such event.
func (c *connection) note(session string, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.places[session]; !known {
		c.place(session, seq-1)
	}
}
