package httpapi

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// Ids of connections, which are those of their servers: see GET /v1/acp.
const (
	connectionPrefix = "conn_"
	socketPrefix     = "sock_"
)

// What a client that goes away again and again can leave behind.
const (
	mostConnections = 64
	mostStreams     = 256  // that are open at once of a connection
	mostPlaces      = 4096 // sessions of a connection whose streams go on where they were
	// restingTime is how long nobody may have used a connection before it has to
	// make room for another.
	restingTime = 5 * time.Minute
)

// connections are those that this program knows: the ones that were made since
// it began, and the ones that clients have come back to.
type connections struct {
	mu  sync.Mutex // guards what follows
	all map[string]*connection
}

// connection is an agent's process that belongs to one client of the transport:
// an ACP server of the host's. All that matters of it is in the log; what is
// kept here is how far its streams were read, by clients that do not say so.
type connection struct {
	id, agent string

	mu      sync.Mutex // guards what follows
	over    bool
	users   int       // streams and sockets that are open
	seen    time.Time // when it was used last
	places  map[string]int64
	readers map[string]*reader
}

// reader is a stream that is open: of a session, or ("") of what is of none.
type reader struct {
	session string
	from    int64           // the event after which it begins; negative: the newest
	ctx     context.Context //nolint:containedctx // of no call: it ends with the stream
	end     context.CancelFunc
}

func noConnection(id string) *rest.Problem {
	p := rest.Missing("connection", id)
	p.Detail += "; initialize without " + headerConnection + " makes another"
	return p
}

// newConnection is one that nobody knows of yet.
func newConnection(prefix, agent string) *connection {
	return &connection{
		id: prefix + strings.ToLower(rand.Text()), agent: agent, seen: time.Now(),
		places: map[string]int64{"": 0}, readers: map[string]*reader{},
	}
}

func tooMany() *rest.Problem {
	return logUnavailable.Problem(fmt.Sprintf(
		"stream error: there are %d connections to agents already; end one by DELETE, or try again when one was not used for %v",
		mostConnections, restingTime)).WithHeader("Retry-After", "60")
}

// admit makes a connection known, if there is room.
func (s *Server) admit(host *agents.Host, c *connection) error {
	rested, ok := s.connections.add(c)
	if !ok {
		return tooMany()
	}
	if rested != nil {
		s.log.Info("a connection that nobody uses makes room", "connection", rested.id)
		s.agents.waiting.Go(func() { s.disconnect(host, rested) })
	}
	return nil
}

// add adds a connection. Where there are too many, the one that was not used for
// longest goes, if there is one.
func (cs *connections) add(c *connection) (rested *connection, ok bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.all) >= mostConnections {
		if rested = cs.rested(); rested == nil {
			return nil, false
		}
		delete(cs.all, rested.id)
	}
	if cs.all == nil {
		cs.all = map[string]*connection{}
	}
	cs.all[c.id] = c
	return rested, true
}

// rested is the connection that was not used for longest, or nil when all were
// of late. The caller has cs.mu.
func (cs *connections) rested() (oldest *connection) {
	var since time.Time
	for _, c := range cs.all {
		if seen, resting := c.resting(); resting && (oldest == nil || seen.Before(since)) {
			oldest, since = c, seen
		}
	}
	return oldest
}

// full tells whether there is no room for another.
func (cs *connections) full() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.all) >= mostConnections && cs.rested() == nil
}

func (cs *connections) remove(c *connection) {
	cs.mu.Lock()
	if cs.all[c.id] == c {
		delete(cs.all, c.id)
	}
	cs.mu.Unlock()
	c.close()
}

// find returns the connection of that id. One of before a restart is known from
// the log; its streams begin with what is new, unless clients say more.
func (cs *connections) find(ctx context.Context, host *agents.Host, id, agent string) (*connection, error) {
	cs.mu.Lock()
	c := cs.all[id]
	cs.mu.Unlock()
	if c == nil && strings.HasPrefix(id, connectionPrefix) {
		infos, err := host.Servers(ctx)
		if err != nil {
			return nil, acpError(err, id, agent)
		}
		for _, info := range infos {
			if info.ID == id {
				c = cs.keep(&connection{id: id, agent: info.Agent, places: map[string]int64{"": -1}, readers: map[string]*reader{}})
			}
		}
	}
	switch {
	case c == nil || !strings.HasPrefix(id, connectionPrefix): // a socket's is its own
		return nil, noConnection(id)
	case c.agent != agent:
		return nil, badHeader(headerConnection, fmt.Sprintf("is of a connection to %s, so use its URL", c.agent))
	}
	c.use()
	return c, nil
}

// keep makes a connection known that a client has come back to, unless another
// request was quicker.
func (cs *connections) keep(c *connection) *connection {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if other := cs.all[c.id]; other != nil {
		return other
	}
	if cs.all == nil {
		cs.all = map[string]*connection{}
	}
	cs.all[c.id] = c
	return c
}

// resting tells since when nobody has used it, if that is long.
func (c *connection) resting() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen, c.users == 0 && time.Since(c.seen) > restingTime
}

func (c *connection) use() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = time.Now()
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

// attach opens a stream after an event that the client has seen; negative: it
// does not say. The one that is open already ends: a client that has lost its
// line comes back before this server knows of that.
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
		return nil, logUnavailable.Problem(fmt.Sprintf(
			"stream error: %d streams of this connection are open already; close those of sessions that are over", mostStreams))
	}
	if seen >= 0 {
		c.place(session, seen)
	}
	r := &reader{session: session}
	r.ctx, r.end = context.WithCancel(context.Background())
	var known bool
	if r.from, known = c.places[session]; !known {
		r.from = c.places[""] // nothing of it was there up to then: see note
	}
	c.readers[session] = r
	c.users++
	return r, nil
}

// place sets where a stream goes on. The caller has c.mu.
func (c *connection) place(session string, seq int64) {
	if _, known := c.places[session]; known || len(c.places) < mostPlaces {
		c.places[session] = seq
	}
}

// detach is the end of a stream.
func (c *connection) detach(r *reader) {
	r.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readers[r.session] == r {
		delete(c.readers, r.session)
	}
	c.users--
	c.seen = time.Now()
}

// reached says that a stream was sent up to an event.
func (c *connection) reached(r *reader, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readers[r.session] == r {
		c.place(r.session, seq)
	}
}

// note says that the connection's own stream has passed an event of a session.
// Where that is the first, the session's stream begins with it, so that it need
// not look through all that was before the session.
func (c *connection) note(session string, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.places[session]; !known {
		c.place(session, seq-1)
	}
}
